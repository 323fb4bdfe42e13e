-- @include lib/receive/lane
-- `queue`: a reference takes its place at a lane. One that is there already stays where it is.
kinds.queue = function(body)
  local place, lane, ref = string.match(body, '^(%d+) (%w+) (.*)$')
  if not lane_place(lane, ref) then lane_set(lane, ref, place) end
end
