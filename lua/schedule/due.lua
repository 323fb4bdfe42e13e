-- Schedules whose next tick is to be decided now, those that wait longest first, with what deciding takes.
--
-- @flags no-writes
-- @key   meta      hash    {pN}:m
-- @arg   most      int     schedules at most
-- @arg   now_ms    now     this shard's clock
-- @reply [number, number, number, string[][]]   this shard's time; when the next one is due, 0 none is; since when the first of these waits, 0 none; of each: core, then fields a, v, k, z, w, b, e, y, g, and m of its document
-- @cost  O(most)
-- @include lib/schedule

local key = root .. 'schedules'
if call('EXISTS', key) == 0 then return { now_ms, 0, 0, {} } end
local cores = call('ZRANGEBYSCORE', key, '-inf', now_ms, 'LIMIT', 0, most)
local rows = {}
for i, core in ipairs(cores) do
  local row = call('HMGET', root .. 'sched:' .. core, 'a', 'v', 'k', 'z', 'w', 'b', 'e', 'y', 'g')
  row[10] = call('HGET', root .. 'sched:' .. core .. ':doc', 'm')
  for k = 1, 10 do row[k] = row[k] or '' end
  table.insert(row, 1, core)
  rows[i] = row
end
local first = #cores > 0 and call('ZSCORE', key, cores[1]) or '0'
local following = call('ZRANGE', key, #cores, #cores, 'WITHSCORES')
return { now_ms, tonumber(following[2] or '0'), tonumber(first), rows }
