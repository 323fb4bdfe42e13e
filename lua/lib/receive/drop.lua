-- @include lib/lane
-- `drop`: a batch is over, and what waits of it leaves the lane.
kinds.drop = function(body, _, now_ms)
  local core, batch = string.match(body, '^(%w+) (%w+)$')
  lane_drop(lane_load(core, now_ms * 1000), batch)
end
