-- @include lib/lane
-- `back`: what was granted and did not start goes to its old place, and its units come back.
kinds.back = function(body, _, now_ms)
  local core, place, granted_ms, entry = string.match(body, '^(%w+) (%d+) (%d+) (.*)$')
  local lane, range = lane_settle(lane_load(core, now_ms * 1000)), lane_read(entry)
  lane_give(lane, (range.to - range.from + 1) * range.cost, range.to - range.from + 1, tonumber(granted_ms), range.core, range.from, range.to)
  lane_return(lane, range, tonumber(place))
end
