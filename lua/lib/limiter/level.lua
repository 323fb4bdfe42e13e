-- A level that each unit raises by one and that falls by `rate` units an interval, evenly: leaky bucket, token bucket (its level is
-- what was taken), points. State: the level was n - rem / interval at time `at`; whole numbers, so nothing is lost to rounding.
--
-- Time is in us; in ms where a unit's share would not be exact in 53 bits (rate * interval). Rounded so that the level is never
-- too low: a level that rises from 0 does so at the end of its us or ms.
do
  local LEVEL_EXACT_MAX = 9000000000
  local LEVEL_DEBT = 2 -- points that were charged afterwards raise the level to so many capacities at most

  local function level_scale(lane) return lane.rate * lane.interval_s > LEVEL_EXACT_MAX and 1000 or 1 end

  -- What drains in `elapsed` with `rem` begun: whole units and the rest of one.
  local function level_drained(lane, elapsed, rem)
    local interval = lane.interval_s * 1000000 / level_scale(lane)
    local part = (elapsed % interval) * lane.rate + rem
    return math.floor(elapsed / interval) * lane.rate + math.floor(part / interval), part % interval
  end

  local function level_set(lane, n, rem)
    if rem < 0 then n, rem = n + 1, rem + lane.interval_s * 1000000 / level_scale(lane) end
    if n <= 0 then n, rem = 0, 0 end
    lane.n, lane.rem = n, rem
    lane.free = math.max(0, lane.max - lane.n)
  end

  machines.level = {
    ahead = 'even',
    settle = function(lane)
      local at = math.floor(lane.v / level_scale(lane))
      lane.n, lane.rem, lane.at = lane.n or 0, lane.rem or 0, lane.at or at
      if at > lane.at then
        local units, rem = level_drained(lane, at - lane.at, lane.rem)
        lane.at = at
        level_set(lane, lane.n - units, rem)
      end
      lane.free = math.max(0, lane.max - lane.n)
    end,
    next = function(lane, cost)
      local units = lane.n + cost - lane.max
      if units <= 0 then return lane.v end
      local interval = lane.interval_s * 1000000 / level_scale(lane)
      local wait = math.floor(units / lane.rate) * interval + math.ceil(((units % lane.rate) * interval - lane.rem) / lane.rate)
      return (lane.at + wait) * level_scale(lane)
    end,
    take = function(lane, units)
      if lane.n == 0 then lane.at, lane.rem = math.ceil(lane.v / level_scale(lane)), 0 end
      lane.n = lane.n + units
      lane.free = lane.free - units
    end,
    -- What has drained since may have been lost anyway, the level being at 0; the rest is certainly in it.
    give = function(lane, units, granted_ms)
      local scale = level_scale(lane)
      local elapsed = math.max(0, math.floor(lane.v / scale) - math.floor((granted_ms * 1000 + lane.skew) / scale))
      local drained, part = level_drained(lane, elapsed, 0)
      if drained < units then level_set(lane, lane.n - (units - drained), lane.rem - part) end
    end,
    charge = function(lane, difference)
      if lane.n == 0 then lane.at, lane.rem = math.ceil(lane.v / level_scale(lane)), 0 end
      if lane.n + difference > LEVEL_DEBT * lane.max then
        level_set(lane, LEVEL_DEBT * lane.max, 0)
      else
        level_set(lane, lane.n + difference, lane.rem)
      end
    end,
    reset = function(lane) lane.n, lane.rem = 0, 0 end,
    adapt = function(lane, before)
      local rem = 0
      if before.form == 'level' then
        rem = math.floor((lane.rem or 0) * (lane.interval_s / level_scale(lane)) / (before.interval_s / level_scale(before)))
      end
      lane.at = math.ceil(lane.v / level_scale(lane))
      level_set(lane, math.min(lane.n or 0, lane.max), (lane.n or 0) > lane.max and 0 or rem)
    end,
  }
end
