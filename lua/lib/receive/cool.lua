-- @include lib/lane
-- `cool`: a target has asked for a pause, which closes the limiter for so long from now; a longer one that runs already goes on.
local COOL_MS_MAX = 3600000

kinds.cool = function(body, _, now_ms)
  local core, ms = string.match(body, '^(%w+) (%d+)$')
  local lane = lane_load(core, now_ms * 1000)
  if lane_limited(lane) then lane.cool = math.max(lane.cool or 0, lane.v + math.min(tonumber(ms), COOL_MS_MAX) * 1000) end
end
