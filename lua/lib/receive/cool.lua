-- @include lib/lane
-- `cool`: a target has asked for a pause, which closes the limiter for so long from now; a longer one that runs already goes on.
local COOL_MS_MAX = 3600000

kinds.cool = function(body, _, now_ms)
  local core, ms = string.match(body, '^(%w+) (%d+)$')
  local lane = lane_load(core, now_ms * 1000)
  if not lane_limited(lane) then return end
  lane.cool = math.max(lane.cool or 0, lane.v + math.min(tonumber(ms), COOL_MS_MAX) * 1000)
  -- The time at which it was to be looked at is too early now.
  if lane.waiting > 0 then lane_wake(lane, lane.now) end
end
