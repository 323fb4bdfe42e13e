-- @include lib/lane
-- `late`: tasks started so many ms after the time that they were granted for: their units count as taken then.
kinds.late = function(body, _, now_ms)
  local core, granted_ms, units, late_ms = string.match(body, '^(%w+) (%d+) (%d+) ?(%d*)$')
  granted_ms = tonumber(granted_ms)
  late_ms = tonumber(late_ms) or math.max(0, now_ms - granted_ms) -- an older version's message does not say it
  local lane = lane_settle(lane_load(core, now_ms * 1000))
  if not lane.machine or not lane.machine.late then return end
  -- What was taken before a reset, a PATCH or a step of the clock is forgotten, or counted otherwise by now; see lane_give.
  if granted_ms * 1000 < (lane.since or 0) then return end
  lane_lags(lane, granted_ms, late_ms)
  lane.machine.late(lane, tonumber(units), granted_ms, granted_ms + late_ms)
end
