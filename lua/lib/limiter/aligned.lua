-- Fixed windows that begin at whole multiples of their length since 1970. State: `at` number of the window, `n` units taken in it.
do
  local function aligned_us(lane) return lane.interval_s * 1000000 end

  machines.aligned = {
    ahead = true,
    settle = function(lane)
      local window = math.floor(lane.now / aligned_us(lane))
      -- A clock that was set back brings an earlier window, which goes on with the count.
      if not lane.at or window > lane.at then lane.n = 0 end
      lane.at = window
      lane.free = math.max(0, lane.max - lane.n)
    end,
    next = function(lane) return (lane.at + 1) * aligned_us(lane) + lane.skew end,
    take = function(lane, units)
      lane.n = lane.n + units
      lane.free = lane.free - units
    end,
    -- When in a window something starts is all the same.
    spare = function() return true end,
    -- What starts after its window would be one too many in the next.
    life = function(lane, granted_ms) return (lane.at + 1) * aligned_us(lane) / 1000 - granted_ms end,
    -- Of a window that is over nothing comes back.
    give = function(lane, units, granted_ms)
      if math.floor(granted_ms * 1000 / aligned_us(lane)) ~= lane.at then return end
      lane.n = math.max(0, lane.n - units)
      lane.free = math.max(0, lane.max - lane.n)
    end,
    late = function(lane, units, granted_ms, started_ms)
      if math.floor(started_ms * 1000 / aligned_us(lane)) ~= lane.at then return end
      machines.aligned.give(lane, units, granted_ms)
      machines.aligned.take(lane, units)
    end,
    reset = function(lane) lane.n = 0 end,
    -- The running count goes on in the window that holds this moment.
    adapt = function(lane)
      lane.at, lane.rem = math.floor(lane.now / aligned_us(lane)), 0
      lane.free = math.max(0, lane.max - lane.n)
    end,
  }
end
