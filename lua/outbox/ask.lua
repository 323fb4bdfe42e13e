-- Tells which of these references their lanes hold.
--
-- @flags no-writes
-- @key   meta      hash    {pN}:m
-- @rest  fields            `<lane> <reference>` of each
-- @reply number[]   of each 1 where its lane holds it, else 0
-- @cost  O(references)
-- @include lib/receive/lane

local known = {}
for i, field in ipairs(fields) do
  local lane, ref = lane_split(field)
  known[i] = lane_place(lane, ref) and 1 or 0
end
return known
