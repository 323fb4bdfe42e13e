-- @include lib/lane
-- `late`: tasks started a while after they were granted: their units count as taken now.
kinds.late = function(body, _, now_ms)
  local core, granted_ms, units = string.match(body, '^(%w+) (%d+) (%d+)$')
  local lane = lane_settle(lane_load(core, now_ms * 1000))
  if not lane.machine or lane.form == 'slots' then return end
  -- What was taken before a reset, a PATCH or a step of the clock is forgotten, or counted otherwise by now; see lane_give.
  if tonumber(granted_ms) * 1000 < (lane.since or 0) then return end
  lane_lags(lane, tonumber(granted_ms))
  lane.machine.give(lane, tonumber(units), tonumber(granted_ms))
  lane.machine.take(lane, tonumber(units))
  lane.free = math.max(0, lane.free)
end
