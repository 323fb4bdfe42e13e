-- @include lib/lane
-- `queue`: a range comes to the end of a lane's line.
kinds.queue = function(body, _, now_ms)
  local core, entry = string.match(body, '^(%w+) (.*)$')
  lane_queue(lane_load(core, now_ms * 1000), lane_read(entry))
end
