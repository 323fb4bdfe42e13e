-- @include lib/lane
-- `leave`: a task was cancelled. Where its range waits it leaves the line, and whoever stands behind it moves up.
kinds.leave = function(body, _, now_ms)
  local core, key, index = string.match(body, '^(%w+) (%w+,%d+,%d+) (%d+)$')
  local lane = lane_load(core, now_ms * 1000)
  local range = lane_entry(lane, key)
  index = tonumber(index)
  if not range or index < range.from then return end
  if index == range.from then
    lane_take(lane, range, index + 1)
  else
    local left, at = range.left or {}, 1
    while left[at] and left[at] < index do at = at + 1 end
    if left[at] == index then return end
    table.insert(left, at, index)
    range.left = left
    lane_count(lane, range, -1)
    lane_put(lane, key, range)
  end
  if lane.waiting > 0 then lane_wake(lane, lane.now) end
end
