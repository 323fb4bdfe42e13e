-- Claims an idempotency key for work on a resource that exists, or tells what it was claimed for.
--
-- The record lies in the key's own partition, the resource perhaps in another: what was claimed and never finished (a
-- process died in between) is done again, by work that is harmless twice. For as long as nearly all requests take it is being processed.
--
-- @key   meta        hash    {pN}:m, of the key's own partition
-- @arg   idem_key    string  `<account>:<hash of key>`
-- @arg   note        string  kept with the claim, such as the name of what will be made; '' for none
-- @arg   idem_print  string  fingerprint of the request
-- @arg   now_ms      now     this shard's clock
-- @reply [string, string, string, number, number]   fingerprint that holds the key now; reply of the finished work, '' while there is none; its extra, or the first claim's note; 0 a new claim, 1 it was claimed before, 2 and may still be worked on; when that began, by which who began it tells it from a later one
-- @cost  O(1)
-- @include lib/root

local key = root .. 'idem:' .. idem_key
local BUSY_MS = 3000
local record = call('HMGET', key, 'f', 'r', 'x', 'b')
if record[1] then
  local begun_ms = tonumber(record[4] or 0)
  local busy = not record[2] and now_ms >= begun_ms and now_ms < begun_ms + BUSY_MS
  if not busy and not record[2] and record[1] == idem_print then
    begun_ms = now_ms
    call('HSET', key, 'b', now_ms)
  end
  return { record[1], record[2] or '', record[3] or '', busy and 2 or 1, begun_ms }
end
call('HSET', key, 'f', idem_print, 'x', note, 'b', now_ms)
call('PEXPIRE', key, 86400000)
return { idem_print, '', note, 0, now_ms }
