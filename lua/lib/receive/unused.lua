-- @include lib/lane
-- `unused`: what was granted is over: its units come back, and nothing else does.
kinds.unused = function(body, _, now_ms)
  local core, granted_ms, tasks, units, batch, from, to = string.match(body, '^(%w+) (%d+) (%d+) (%d+) (%w+) (%d+) (%d+)$')
  local lane = lane_settle(lane_load(core, now_ms * 1000))
  lane_give(lane, tonumber(units), tonumber(tasks), tonumber(granted_ms), batch, tonumber(from), tonumber(to))
end
