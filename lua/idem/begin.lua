-- Claims an idempotency key for work on a resource that exists, or tells what it was claimed for.
--
-- The record lies in the key's own partition, the resource perhaps in another: what was claimed and never finished (a
-- process died in between) is done again, by work that is harmless twice.
--
-- @key   meta        hash    {pN}:m, of the key's own partition
-- @arg   idem_key    string  `<account>:<hash of key>`
-- @arg   note        string  kept with the claim, such as the name of what will be made; '' for none
-- @arg   idem_print  string  fingerprint of the request
-- @reply [string, string, string, number]   fingerprint that holds the key now; reply of the finished work, '' while there is none; its extra, or the first claim's note; 1 where it was claimed before
-- @cost  O(1)
-- @include lib/root

local key = root .. 'idem:' .. idem_key
local record = call('HMGET', key, 'f', 'r', 'x')
if record[1] then return { record[1], record[2] or '', record[3] or '', 1 } end
call('HSET', key, 'f', idem_print, 'x', note)
call('PEXPIRE', key, 86400000)
return { idem_print, '', note, 0 }
