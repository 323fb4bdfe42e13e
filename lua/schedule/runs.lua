-- A slice of a schedule's runs, the newest first, with how their tasks stand.
--
-- @flags no-writes
-- @key   meta      hash    {pN}:m
-- @arg   core      string  the schedule
-- @arg   account   string  account id
-- @arg   offset    int     runs before the slice
-- @arg   most      int     runs in it
-- @reply [number, [string, number, string, number, number, number, number, number][]]   runs in the slice, those that are gone too; of each that is not: core, index (-1: a batch), state byte of a single task, counts n, c, f, x, r of a batch, as BATCH_FIELDS name them
-- @cost  O(most)
-- @include lib/schedule

local key = root .. 'sched:' .. core
if call('HGET', key, 'a') ~= account then return { 0, {} } end
local members = call('ZREVRANGE', key .. ':runs', offset, offset + most - 1)
local rows = {}
for _, member in ipairs(members) do
  local of = run_read(member)
  local batch = root .. 'b:' .. of.core
  if of.kind == 't' then
    local state = call('GETRANGE', batch .. ':s', of.index, of.index)
    if state ~= '' then rows[#rows + 1] = { of.core, of.index, state, 1, 0, 0, 0, 0 } end
  else
    local v = call('HMGET', batch, 's', 'n', 'c', 'f', 'x', 'r')
    if v[1] and v[1] ~= 'deleted' then
      rows[#rows + 1] = { of.core, -1, '', tonumber(v[2]), tonumber(v[3]), tonumber(v[4]), tonumber(v[5]), tonumber(v[6]) }
    end
  end
end
return { #members, rows }
