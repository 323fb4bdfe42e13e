-- Reads a schedule for its owner, and which of its runs have come.
--
-- @flags no-writes
-- @key   meta      hash    {pN}:m
-- @arg   core      string  the schedule
-- @arg   account   string  account id
-- @arg   now_ms    now     this shard's clock
-- @reply [number, number, number, (string | null)[], (string | null)[]]   1, or 0 where the account has no such schedule; runs that are ahead of their time; scheduled time of the latest one that is not, 0 none; fields of the hash, d and m of its document
-- @cost  O(1)
-- @include lib/schedule

local key = root .. 'sched:' .. core
local fields = call('HMGET', key, 'a', 's', 'v', 't', 'u', 'k', 'n', 'l', 'f', 'z', 'w', 'b', 'e', 'y', 'g')
if fields[1] ~= account then return { 0, 0, 0, {}, {} } end
local ahead = call('ZCOUNT', key .. ':runs', '(' .. string.format('%.0f', now_ms), '+inf')
local latest = call('ZREVRANGEBYSCORE', key .. ':runs', now_ms, '-inf', 'WITHSCORES', 'LIMIT', 0, 1)
return { 1, ahead, math.max(tonumber(latest[2] or '0'), tonumber(fields[8] or '0')), fields, call('HMGET', key .. ':doc', 'd', 'm') }
