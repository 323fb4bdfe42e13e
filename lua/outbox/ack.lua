-- Removes messages that their destination has applied.
--
-- By their whole text and never by sequence: a promoted replica may have a message of its own under a number that the
-- old master gave to another. From now on numbers are above the destination's mark, whatever the clock says.
--
-- @flags allow-oom
-- @key   meta      hash    {pN}:m
-- @arg   destination int   partition that has applied them
-- @arg   mark      number  the destination's mark for this partition
-- @arg   now_ms    now     this shard's clock
-- @rest  messages          as outbox/slice gave them
-- @reply number   1 where more waits for this destination
-- @cost  O(messages)
-- @include lib/outbox

local name = whole(destination)
local key = outbox_key(name)
local gone, since = {}, {}
for _, message in ipairs(messages) do
  if call('ZSCORE', key, message) then
    gone[#gone + 1] = message
    -- The lane has it, or has lost it, from now on: the wait until it is asked begins here.
    local kind, lane = string.match(message, '^%d+ (%a+) (%w+) ')
    if kind == 'queue' or kind == 'back' then
      since[#since + 1] = now_ms
      since[#since + 1] = away_field(lane, message)
    end
  end
end
local last = tonumber(call('HGET', meta, 'seq') or '0')

for i = 1, #gone, 1000 do call('ZREM', key, unpack(gone, i, math.min(i + 999, #gone))) end
for i = 1, #since, 1000 do call('ZADD', root .. 'away:since', 'XX', unpack(since, i, math.min(i + 999, #since))) end
if mark > last then call('HSET', meta, 'seq', whole(mark)) end
local first = call('ZRANGE', key, 0, 0, 'WITHSCORES')
if #first == 0 then
  call('ZREM', root .. 'outbox', name)
  return 0
end
call('ZADD', root .. 'outbox', first[2], name)
return 1
