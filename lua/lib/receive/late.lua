-- @include lib/lane
-- `late`: tasks started so many ms after the time that they were granted for: their units count as taken then.
local LATE_SHARE, LATE_MS_MAX = 16, 500 -- of a message in `lag`; how long a grant is good

-- How late starts are, on the whole (`lag`) and at least since the lane was last held (`way`, -1: not known yet), in ms. Those of grants from before it
-- was held (until `hold`) say for how long it is: until the last of them has started, too.
local function late_learn(lane, granted_ms, late_ms)
  if granted_ms <= (lane.hold or 0) then
    lane.opens = math.max(lane.opens or 0, lane.hold + late_ms + LANE_HEARD_MS)
  else
    local lag = lane.lag or 0
    lane.lag = lag + (late_ms - lag) / LATE_SHARE
    lane.way = lane.way == -1 and late_ms or math.min(lane.way or 0, late_ms)
  end
end

kinds.late = function(body, _, now_ms)
  local core, granted_ms, units, late_ms = string.match(body, '^(%w+) (%d+) (%d+) ?(%d*)$')
  granted_ms = tonumber(granted_ms)
  late_ms = tonumber(late_ms) or math.max(0, now_ms - granted_ms) -- an older version's message does not say it
  local lane = lane_settle(lane_load(core, now_ms * 1000))
  if not lane.machine or not lane.machine.late then return end
  -- What was taken before a reset, a PATCH or a step of the clock is forgotten, or counted otherwise by now; see lane_give.
  if granted_ms * 1000 < (lane.since or 0) then return end
  late_learn(lane, granted_ms, math.min(late_ms, LATE_MS_MAX))
  lane.machine.late(lane, tonumber(units), granted_ms, granted_ms + late_ms)
end
