-- Claims an idempotency key for work on a resource that exists, or tells what it was claimed for.
--
-- The record lies in the key's own partition, the resource perhaps in another: what was claimed and never finished (a
-- process died in between) is done again, by work that is harmless twice. For as long as nearly all requests take it is being processed.
--
-- @key   meta        hash    {pN}:m, of the key's own partition
-- @arg   idem_key    string  `<account>:<hash of key>`
-- @arg   note        string  kept with the claim, such as the name of what will be made, and nobody else's; '' for none: then others may work beside it
-- @arg   idem_print  string  fingerprint of the request
-- @arg   now_ms      now     this shard's clock
-- @reply [string, string, string, number, number]   fingerprint that holds the key now; reply of the finished work, '' while there is none; its extra, or the first claim's note; 0 a new claim, 1 it was claimed before, 2 and may still be worked on; when its work began, by which a later one is told from it, -1 where that is another's
-- @cost  O(1)
-- @include lib/root

local key = root .. 'idem:' .. idem_key
local BUSY_MS = 3000
local record = call('HMGET', key, 'f', 'r', 'x', 'b')
if record[1] then
  local done, begun_ms = record[2] ~= false, tonumber(record[4] or 0)
  local busy = not done and now_ms >= begun_ms and now_ms < begun_ms + BUSY_MS
  -- One that was sent again, its answer having been lost, finds itself.
  if busy and record[3] == note then return { record[1], '', note, 0, begun_ms } end
  if busy then return { record[1], '', record[3], 2, -1 } end
  if note ~= '' and not done and record[1] == idem_print then
    begun_ms = now_ms
    call('HSET', key, 'b', now_ms)
  end
  return { record[1], record[2] or '', record[3] or '', 1, begun_ms }
end
call('HSET', key, 'f', idem_print, 'x', note)
if note ~= '' then call('HSET', key, 'b', now_ms) end
call('PEXPIRE', key, 86400000)
return { idem_print, '', note, 0, now_ms }
