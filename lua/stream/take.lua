-- Takes a place among the streams of a batch; by a ticket, which is used up, or for an account that is known already.
--
-- A place is its stream's name in a sorted set, by the time at which it ends unless its process renews it (stream/look).
--
-- @flags allow-oom
-- @key   meta      hash    {pN}:m
-- @arg   core      string  the batch
-- @arg   account   string  account id; '' where the ticket tells it
-- @arg   ticket    string  a ticket, hashed; '' for none
-- @arg   stream    string  name of the stream; '' to take nothing and only be told
-- @arg   max       int     streams that the batch may have; 0 = no limit
-- @arg   place_ms  int     how long a place is kept without being renewed
-- @arg   now_ms    now     this shard's clock
-- @reply [string, string, string]  taken (also where nothing was to be), full, missing, unknown (the ticket); account id; hash of the token that the ticket was made with, or ''
-- @cost  O(max)
-- @include lib/root

local key = root .. 'b:' .. core
local places = key .. ':streams'
local owner = call('HMGET', key, 'a', 's')
local ticket_key = key .. ':ticket:' .. ticket
local token = ''
if ticket ~= '' then account, token = string.match(call('GET', ticket_key) or '', '^(%S*) ?(%S*)$') end
local open = max > 0 and call('ZCOUNT', places, '(' .. string.format('%.0f', now_ms), '+inf') or 0

if ticket ~= '' and stream ~= '' then call('DEL', ticket_key) end
if account == '' then return { 'unknown', '', '' } end
if owner[1] ~= account or owner[2] == 'tray' or owner[2] == 'deleted' then return { 'missing', account, token } end
if max > 0 and open >= max then return { 'full', account, token } end
if max == 0 or stream == '' then return { 'taken', account, token } end
call('ZREMRANGEBYSCORE', places, '-inf', now_ms)
call('ZADD', places, now_ms + place_ms, stream)
call('PEXPIRE', places, place_ms)
return { 'taken', account, token }
