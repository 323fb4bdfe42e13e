-- Tells which of these references their lanes hold.
--
-- @flags no-writes
-- @key   meta      hash    {pN}:m
-- @rest  fields            `<lane> <core>,<to>,<attempts>` of each
-- @reply number[]   of each 1 where its lane holds it, else 0
-- @cost  O(references)
-- @include lib/root

local known = {}
for i, field in ipairs(fields) do
  local lane, ref = string.match(field, '^(%w+) (.*)$')
  known[i] = call('HEXISTS', root .. 'lane:' .. lane .. ':e', ref)
end
return known
