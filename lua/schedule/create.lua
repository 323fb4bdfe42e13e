-- Makes a schedule. Segments of its template were written before, under names that expire; here they get their own.
-- A repeated call (the reply was lost) changes nothing and answers as the first.
--
-- @key   meta            hash    {pN}:m
-- @arg   core            string  the new schedule
-- @arg   account         string  account id
-- @arg   status          string  active or disabled
-- @arg   tick            string  the first tick to decide, '' none
-- @arg   due             string  when it is to be decided (ms), '' where there is none
-- @arg   idem_key        string  idempotency record to write, '' for none; see lib/idem
-- @arg   idem_print      string  fingerprint of the request
-- @arg   idem_extra      bytes   what the answer needs besides the reply
-- @arg   now_ms          now     this shard's clock
-- @rest  parts           segments, task keys, fields: see lib/template
-- @reply [number, number]        1 made or made before, 0 segments expired, 2 idempotency key taken; created_at ms
-- @cost  O(segments + task keys)
-- @include lib/schedule
-- @include lib/idem
-- @include lib/template

local key = root .. 'sched:' .. core
local before = call('HGET', key, 't')
if before then return { 1, tonumber(before) } end
if idem_taken() then return { 2, now_ms } end
local s = { core = core, key = key, doc = key .. ':doc' }
if not template_plan(s, '1', parts) then return { 0, now_ms } end

template_write()
call('HSET', key, 'a', account, 's', status, 'v', 1, 't', now_ms, 'u', now_ms, 'k', tick, 'n', 0, 'i', 0, 'g', 1)
call('ZADD', schedule_list(account), now_ms, core)
call('ZADD', schedule_list(account, status), now_ms, core)
if due ~= '' then call('ZADD', root .. 'schedules', due, core) end
ring_cron(due)
idem_write({ 1, now_ms })
return { 1, now_ms }
