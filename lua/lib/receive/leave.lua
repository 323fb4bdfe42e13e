-- @include lib/lane
-- `leave`: a task was cancelled. Where its range waits it leaves the line, and whoever stands behind it moves up; what stands before it is a
-- range of its own from then on.
kinds.leave = function(body, _, now_ms)
  local core, key, index = string.match(body, '^(%w+) (%w+,%d+,%d+) (%d+)$')
  local lane = lane_load(core, now_ms * 1000)
  local range = lane_entry(lane, key)
  index = tonumber(index)
  if not range or index < range.from then return end
  local before = nil
  if index > range.from then
    before = {}
    for name, value in pairs(range) do before[name] = value end
    before.to = index - 1
    before.key = lane_key(before)
    lane_count(lane, range, range.from - index)
    range.from = index
  end
  lane_take(lane, range, 1)
  if before then lane_add(lane, before) end
  if lane.waiting > 0 then lane_wake(lane, lane.now) end
end
