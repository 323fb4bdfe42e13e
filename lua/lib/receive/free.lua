-- @include lib/lane
-- `free`: tasks that held slots run no longer.
kinds.free = function(body, _, now_ms)
  local core, batch, from, to = string.match(body, '^(%w+) (%w+) (%d+) (%d+)$')
  local lane = lane_settle(lane_load(core, now_ms * 1000))
  if lane.machine and lane.machine.done then
    lane.machine.done(lane, batch, tonumber(from), tonumber(to))
    lane_eased(lane)
  end
end
