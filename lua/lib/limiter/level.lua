-- A level that each unit raises by one and that falls by `rate` units an interval, evenly: leaky bucket, token bucket (its level is
-- what was taken), points. State: the level was n - rem / interval at time `at`; whole numbers, so nothing is lost to rounding.
--
-- Time is in us; in ms where a unit's share would not be exact in 53 bits (rate * interval). Rounded so that the level is never
-- too low: a level that rises from 0 does so at the end of its us or ms.
--
-- `lane:<core>:log` is a list of the last starts, oldest first: `<granted_ms> <at> <n> <rem> <units>`, with the level before each. Where one
-- turns out to have started late, what has been since is worked out again from there.
do
  local LEVEL_LOG_MAX = 128
  local LEVEL_EXACT_MAX = 9000000000
  local LEVEL_GUARD_US, LEVEL_GUARD_PART = 2000, 4 -- what drips in within that time is left free in a bucket that was not empty; a part of all at most
  local LEVEL_DEBT = 2 -- points that were charged afterwards raise the level to so many capacities at most

  local function level_scale(lane) return lane.rate * lane.interval_s > LEVEL_EXACT_MAX and 1000 or 1 end

  -- What drains in `elapsed` with `rem` begun: whole units and the rest of one.
  local function level_drained(lane, elapsed, rem)
    local interval = lane.interval_s * 1000000 / level_scale(lane)
    local part = (elapsed % interval) * lane.rate + rem
    return math.floor(elapsed / interval) * lane.rate + math.floor(part / interval), part % interval
  end

  -- A level of n - rem / interval, where rem may be less than 0, as it is kept: none is below 0.
  local function level_of(lane, n, rem)
    if rem < 0 then n, rem = n + 1, rem + lane.interval_s * 1000000 / level_scale(lane) end
    if n <= 0 then return 0, 0 end
    return n, rem
  end

  local function level_set(lane, n, rem)
    lane.n, lane.rem = level_of(lane, n, rem)
    lane.free = math.max(0, lane.max - lane.n)
  end

  -- One start takes some ms more to its receiver than another. Were a bucket filled to its brim after each stall, more would come in within a second there than may.
  -- Where it was empty all of it goes at once, whoever it goes to; what is told of a later time is told with what holds then.
  local function level_guard(lane)
    if lane.n == 0 then return 0 end
    return math.floor(math.min(lane.rate / lane.interval_s * LEVEL_GUARD_US / 1000000, lane.max / LEVEL_GUARD_PART))
  end

  -- What was taken before is not moved any more: the level is not what came of it alone.
  local function level_forget(lane) lane.log, lane.log_changed = {}, true end

  local function level_read(lane)
    if lane.log then return lane.log end
    lane.log = {}
    for i, text in ipairs(call('LRANGE', lane.key .. ':log', 0, -1)) do
      local ms, at, n, rem, units = string.match(text, '^(%d+) (%d+) (%d+) (%d+) (%d+)$')
      lane.log[i] = { ms = tonumber(ms), at = tonumber(at), n = tonumber(n), rem = tonumber(rem), units = tonumber(units) }
    end
    for _, item in ipairs(lane.log_new or {}) do lane.log[#lane.log + 1] = item end
    lane.log_changed, lane.log_new = true, nil
    return lane.log
  end

  local function level_note(lane, units)
    local list = lane.log
    if not list then
      lane.log_new = lane.log_new or {}
      list = lane.log_new
    end
    list[#list + 1] = { ms = math.floor((lane.v - lane.skew) / 1000), at = lane.at, n = lane.n, rem = lane.rem, units = units }
  end

  -- The level as it is, had all in the log from the i-th on come at its time.
  local function level_replay(lane, log, i)
    local at, n, rem = log[i].at, log[i].n, log[i].rem
    local function pass(to)
      local units, rest = level_drained(lane, to - at, rem)
      at, n, rem = to, n - units, rest
      if n <= 0 then n, rem = 0, 0 end
    end
    for k = i, #log do
      pass(math.max(at, log[k].at))
      log[k].n, log[k].rem = n, rem
      n = n + log[k].units
    end
    pass(math.max(at, lane.at))
    lane.at = at
    level_set(lane, n, rem)
  end

  -- What started late and is not in the log is in the level since its grant: too low is that by what drained in between, at most. So is the
  -- level before each in the log.
  local function level_late(lane, log, units, late_ms)
    local drained, part = level_drained(lane, math.ceil(late_ms * 1000 / level_scale(lane)), 0)
    if drained >= units then drained, part = units, 0 end
    for _, item in ipairs(log) do item.n, item.rem = level_of(lane, item.n + drained, item.rem - part) end
    level_set(lane, lane.n + drained, lane.rem - part)
  end

  machines.level = {
    ahead = true,
    settle = function(lane)
      local at = math.floor(lane.v / level_scale(lane))
      lane.n, lane.rem, lane.at = lane.n or 0, lane.rem or 0, lane.at or at
      if at > lane.at then
        local units, rem = level_drained(lane, at - lane.at, lane.rem)
        lane.at = at
        level_set(lane, lane.n - units, rem)
      end
      lane.free, lane.guard = math.max(0, lane.max - lane.n), level_guard(lane)
    end,
    next = function(lane, cost)
      local units = math.min(lane.n, lane.n + cost - lane.max + level_guard(lane))
      if units <= 0 then return lane.v end
      local interval = lane.interval_s * 1000000 / level_scale(lane)
      local wait = math.floor(units / lane.rate) * interval + math.ceil(((units % lane.rate) * interval - lane.rem) / lane.rate)
      return (lane.at + wait) * level_scale(lane)
    end,
    room = function(lane) return math.max(0, lane.free - (lane.guard or 0)) end,
    -- When (v) nothing would be left in it, and what drips in from then on be lost.
    runs_dry = function(lane) return machines.level.next(lane, lane.max) end,
    take = function(lane, units)
      if lane.n == 0 then lane.at, lane.rem = math.ceil(lane.v / level_scale(lane)), 0 end
      level_note(lane, units)
      lane.n = lane.n + units
      lane.free = lane.free - units
    end,
    -- Starts that are so late have the level too low by what drains in that time, at most.
    spare = function(lane, late_ms) return lane.free * lane.interval_s * 1000 >= lane.rate * late_ms end,
    -- What has drained since may have been lost anyway, the level being at 0; the rest is certainly in it.
    give = function(lane, units, granted_ms)
      local scale = level_scale(lane)
      local elapsed = math.max(0, math.floor(lane.v / scale) - math.floor((granted_ms * 1000 + lane.skew) / scale))
      local drained, part = level_drained(lane, elapsed, 0)
      if drained < units then level_set(lane, lane.n - (units - drained), lane.rem - part) end
      level_forget(lane)
    end,
    late = function(lane, units, granted_ms, started_ms)
      local log = level_read(lane)
      local i, left = nil, units
      for k = #log, 1, -1 do
        if log[k].ms == granted_ms and left > 0 then
          local moved = math.min(left, log[k].units)
          i, left, log[k].units = k, left - moved, log[k].units - moved
        end
      end
      if not i then return level_late(lane, log, units, started_ms - granted_ms) end
      local at = math.min(lane.at, math.max(log[i].at, math.ceil((started_ms * 1000 + lane.skew) / level_scale(lane))))
      local k = #log
      while k > i and log[k].at > at do k = k - 1 end
      table.insert(log, k + 1, { ms = started_ms, at = at, units = units })
      level_replay(lane, log, i)
    end,
    charge = function(lane, difference)
      level_forget(lane)
      if lane.n == 0 then lane.at, lane.rem = math.ceil(lane.v / level_scale(lane)), 0 end
      if lane.n + difference > LEVEL_DEBT * lane.max then
        level_set(lane, LEVEL_DEBT * lane.max, 0)
      else
        level_set(lane, lane.n + difference, lane.rem)
      end
    end,
    reset = function(lane)
      lane.n, lane.rem = 0, 0
      level_forget(lane)
    end,
    adapt = function(lane, before)
      local rem = 0
      if before.form == 'level' then
        rem = math.floor((lane.rem or 0) * (lane.interval_s / level_scale(lane)) / (before.interval_s / level_scale(before)))
      end
      lane.at = math.ceil(lane.v / level_scale(lane))
      level_forget(lane)
      level_set(lane, math.min(lane.n or 0, lane.max), (lane.n or 0) > lane.max and 0 or rem)
    end,
    write = function(lane)
      local key, list = lane.key .. ':log', lane.log_changed and lane.log or lane.log_new
      if not list then return end
      if lane.log_changed then call('DEL', key) end
      local texts = {}
      for k = math.max(1, #list - LEVEL_LOG_MAX + 1), #list do
        local item = list[k]
        texts[#texts + 1] = string.format('%.0f %.0f %.0f %.0f %.0f', item.ms, item.at, item.n, item.rem, item.units)
      end
      if #texts == 0 then return end
      if call('RPUSH', key, unpack(texts, 1, #texts)) > LEVEL_LOG_MAX then call('LTRIM', key, -LEVEL_LOG_MAX, -1) end
    end,
  }
end
