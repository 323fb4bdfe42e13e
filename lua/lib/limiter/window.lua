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

  -- The i-th of the log, from 1: as it is stored, read a few at a time, and behind that what is new. nil where there is none.
  local function window_at(lane, i)
    if i > lane.log_length then return lane.log_new[i - lane.log_length] end
    if not lane.log[i] then
      local from = math.floor((i - 1) / WINDOW_READ) * WINDOW_READ
      for k, text in ipairs(call('LRANGE', window_log(lane), from, from + WINDOW_READ - 1)) do
        lane.log[from + k] = lane.log[from + k] or window_item(text)
      end
    end
    return lane.log[i]
  end

  -- The first in the log that ends at a cell or later, and its number; looked for from the end.
  local function window_find(lane, cell)
    local i, found = lane.log_length + #lane.log_new, nil
    while i > lane.log_gone do
      local item = window_at(lane, i)
      if item.cell < cell then break end
      found, i = item, i - 1
    end
    return found, i + 1
  end

  local function window_count(lane, item, i, units)
    item.units = item.units + units
    if i <= lane.log_length then lane.log_set[i] = item end
    lane.n = lane.n + units
    lane.free = math.max(0, lane.max - lane.n)
  end

  -- Units that are taken in a cell. Where the log has later ones but not this, with the first of those: it is made longer at its end only.
  local function window_add(lane, cell, units)
    if #lane.log_new == 0 and lane.log_length > lane.log_gone and not lane.log[lane.log_length] then
      lane.log[lane.log_length] = window_item(call('LINDEX', window_log(lane), -1))
    end
    local item, i = window_find(lane, cell)
    if not item then
      item, i = { cell = cell, units = 0 }, lane.log_length + #lane.log_new + 1
      lane.log_new[#lane.log_new + 1] = item
    end
    window_count(lane, item, i, units)
  end

  -- Drops what is older than an interval.
  local function window_pop(lane)
    while true do
      local item = lane.log_gone < lane.log_length and window_at(lane, lane.log_gone + 1)
      if not item or item.cell * 1000 + window_us(lane) > lane.v then break end
      lane.n = lane.n - item.units
      lane.log_gone = lane.log_gone + 1
    end
    lane.free = math.max(0, lane.max - lane.n)
  end

  machines.window = {
    ahead = true,
    settle = function(lane)
      if not lane.log then
        lane.log, lane.log_gone, lane.log_length, lane.log_set, lane.log_new = {}, 0, call('LLEN', window_log(lane)), {}, {}
      end
      lane.n = lane.n or 0
      window_pop(lane)
    end,
    next = function(lane, cost)
      local missing = lane.n + cost - lane.max
      local i = lane.log_gone + 1
      while missing > 0 do
        local item = window_at(lane, i)
        if not item then return lane.v end
        missing = missing - item.units
        if missing <= 0 then return item.cell * 1000 + window_us(lane) end
        i = i + 1
      end
      return lane.v
    end,
    take = function(lane, units) window_add(lane, window_cell(lane, lane.v), units) end,
    give = function(lane, units, granted_ms)
      local cell = window_cell(lane, granted_ms * 1000 + lane.skew)
      local item, i = window_find(lane, cell)
      if item and item.cell == cell then window_count(lane, item, i, -math.min(units, item.units)) end
    end,
    late = function(lane, units, granted_ms, started_ms)
      local from, to = granted_ms * 1000 + lane.skew, started_ms * 1000 + lane.skew
      if window_cell(lane, from) == window_cell(lane, to) then return end
      machines.window.give(lane, units, granted_ms)
      if window_cell(lane, to) * 1000 + window_us(lane) > lane.v then window_add(lane, window_cell(lane, to), units) end
    end,
    reset = function(lane) lane.n, lane.log_all = 0, {} end,
    -- The log in cells of the new width, each at or after its old end, but none later than what is taken now: a cell of a long interval
    -- can end an hour ahead, and would count for so long in a short one.
    adapt = function(lane, before)
      if before.interval_s == lane.interval_s then
        lane.free = math.max(0, lane.max - lane.n)
        return
      end
      local width, all = math.ceil(lane.interval_s * 1000 / WINDOW_CELLS), {}
      lane.n = 0
      for i = lane.log_gone + 1, lane.log_length do
        local item = window_at(lane, i)
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
      for _, item in ipairs(lane.log_new) do call('RPUSH', key, text(item)) end
      if lane.log_gone > 0 then call('LTRIM', key, lane.log_gone, -1) end
    end,
  }
end
