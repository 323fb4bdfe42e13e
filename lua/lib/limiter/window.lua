-- A sliding window, exact: `lane:<core>:log` is a list of `<cell> <units>`, oldest first. A cell is the ms at which a slice of time
-- (1/1024 of the interval, at least 1 ms) has ended. Units count as taken at the end of their cell: never too short, and too long by one
-- slice at most, which bounds the list by 1,026 whatever the limit. State: `n` units in the log.
do
  local WINDOW_CELLS, WINDOW_READ = 1024, 32

  local function window_log(lane) return lane.key .. ':log' end

  local function window_us(lane) return lane.interval_s * 1000000 end

  -- The cell that holds a time, in ms.
  local function window_cell(lane, v)
    local width = math.ceil(lane.interval_s * 1000 / WINDOW_CELLS)
    return (math.floor(math.floor(v / 1000) / width) + 1) * width
  end

  local function window_item(text)
    local cell, units = string.match(text, '^(%d+) (%d+)$')
    return { cell = tonumber(cell), units = tonumber(units) }
  end

  -- The i-th of the log as it is stored, from 1; read a few at a time.
  local function window_at(lane, i)
    while i > #lane.log and #lane.log < lane.log_length do
      local from = #lane.log
      for _, text in ipairs(call('LRANGE', window_log(lane), from, from + WINDOW_READ - 1)) do
        lane.log[#lane.log + 1] = lane.log_set[#lane.log + 1] or window_item(text)
      end
    end
    return lane.log[i]
  end

  -- Drops what is older than an interval.
  local function window_pop(lane)
    while true do
      local item = window_at(lane, lane.log_gone + 1)
      if not item or item.cell * 1000 + window_us(lane) > lane.v then break end
      lane.n = lane.n - item.units
      lane.log_gone = lane.log_gone + 1
    end
    lane.free = math.max(0, lane.max - lane.n)
  end

  machines.window = {
    ahead = 'exact',
    settle = function(lane)
      lane.log, lane.log_gone, lane.log_length, lane.log_set = {}, 0, call('LLEN', window_log(lane)), {}
      lane.n = lane.n or 0
      window_pop(lane)
    end,
    next = function(lane, cost)
      local missing = lane.n + cost - lane.max
      local i = lane.log_gone + 1
      while missing > 0 do
        local item = window_at(lane, i) or lane.log_new
        if not item then return lane.v end
        missing = missing - item.units
        if missing <= 0 or item == lane.log_new then return item.cell * 1000 + window_us(lane) end
        i = i + 1
      end
      return lane.v
    end,
    take = function(lane, units)
      lane.n = lane.n + units
      lane.free = lane.free - units
      local cell = window_cell(lane, lane.v)
      if not lane.log_new and lane.log_gone < lane.log_length then
        local last = lane.log[lane.log_length] or window_item(call('LINDEX', window_log(lane), -1))
        if last.cell >= cell then
          last = lane.log_set[lane.log_length] or last
          last.units = last.units + units
          lane.log_set[lane.log_length] = last
          return
        end
      end
      lane.log_new = lane.log_new or { cell = cell, units = 0 }
      lane.log_new.units = lane.log_new.units + units
    end,
    give = function(lane, units, granted_ms)
      local cell = window_cell(lane, granted_ms * 1000 + lane.skew)
      for i = lane.log_gone + 1, lane.log_length do
        local item = window_at(lane, i)
        if item.cell == cell then
          local given = math.min(units, item.units)
          item.units = item.units - given
          lane.log_set[i] = item
          lane.n = lane.n - given
          lane.free = math.max(0, lane.max - lane.n)
        end
      end
    end,
    reset = function(lane) lane.n, lane.log_all = 0, {} end,
    -- The log in cells of the new width, each at or after its old end, but none later than what is taken now: a cell of a long interval
    -- can end an hour ahead, and would count for so long in a short one.
    adapt = function(lane, before)
      if before.interval_s == lane.interval_s then
        lane.free = math.max(0, lane.max - lane.n)
        return
      end
      window_at(lane, lane.log_length)
      local width, all = math.ceil(lane.interval_s * 1000 / WINDOW_CELLS), {}
      lane.n = 0
      for i = lane.log_gone + 1, lane.log_length do
        local item = lane.log[i]
        local cell = math.min(math.ceil(item.cell / width) * width, window_cell(lane, lane.v))
        if cell * 1000 + window_us(lane) > lane.v then
          if #all == 0 or all[#all].cell < cell then all[#all + 1] = { cell = cell, units = 0 } end
          all[#all].units = all[#all].units + item.units
          lane.n = lane.n + item.units
        end
      end
      lane.log_all = all
    end,
    write = function(lane)
      local key = window_log(lane)
      local function text(item) return string.format('%.0f %.0f', item.cell, item.units) end
      if lane.log_all then
        call('DEL', key)
        for _, item in ipairs(lane.log_all) do call('RPUSH', key, text(item)) end
        return
      end
      for i, item in pairs(lane.log_set) do
        if i > lane.log_gone then call('LSET', key, i - 1, text(item)) end
      end
      if lane.log_new then call('RPUSH', key, text(lane.log_new)) end
      if lane.log_gone > 0 then call('LTRIM', key, lane.log_gone, -1) end
    end,
  }
end
