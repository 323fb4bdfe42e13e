-- @include lib/lane
-- `points`: a task has cost more, or less, than was taken for it.
kinds.points = function(body, _, now_ms)
  local core, difference = string.match(body, '^(%w+) (%-?%d+)$')
  local lane = lane_settle(lane_load(core, now_ms * 1000))
  if lane.machine and lane.machine.charge then
    lane.machine.charge(lane, tonumber(difference))
    lane_eased(lane)
  end
end
