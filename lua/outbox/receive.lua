-- Applies the messages of another partition, each once and in their order, and advances the mark that says so.
--
-- `hw` holds for each source the sequence up to which its messages were applied here; what is not above it is left
-- out, however often it comes. Work and mark are one script, so they are lost together or not at all. What a message
-- does is in lua/lib/receive/<kind>.lua. One of a kind that is not known here (its sender is newer than this script)
-- stops the call before it and waits for a relayer that knows it.
--
-- @flags allow-oom
-- @key   meta      hash    {pN}:m
-- @arg   source    int     partition that they come from
-- @arg   source_ms number  that partition's clock by now, at least
-- @arg   unsure_ms number  how much later it may be there
-- @arg   ahead_ms  number  how far this shard's clock is ahead of that one, at most
-- @arg   keep_ms   int     how long a finished batch stays
-- @arg   tray_keep_ms int  how long a finished tray stays
-- @arg   now_us    now_us  this shard's clock
-- @rest  messages          as outbox/slice gave them, ascending
-- @reply [number, number, number, number, number]   the mark; how many of the messages, from the first, are done with; how many this call has applied; 1 where it has written messages; this shard's time (us)
-- @cost  O(messages), and for each that tells of an end O(its tasks)
-- @include lib/limited
-- @include lib/granted
-- @include lib/lost
-- @include lib/notify

local FAILED_MAX = 1000
local now_ms = math.floor(now_us / 1000)
-- Two bounds of one clock: the one is as old as the way here was long, the other as wide as our knowing of both clocks.
source_ms = math.max(source_ms, now_us / 1000 - ahead_ms)
local kinds = {}
-- @include lib/receive/*

local field = string.format('%.0f', source)
local mark = tonumber(call('HGET', root .. 'hw', field) or '0')
local before, done, applied = 0, 0, 0
for _, message in ipairs(messages) do
  local seq_text, kind, body = string.match(message, '^(%d+) (%a+) (.*)$')
  local seq = tonumber(seq_text)
  -- Out of order they would be taken for old ones, and acknowledged.
  if seq <= before then return redis.error_reply('ERR messages are not ascending') end
  before = seq
  if seq > mark then
    if not kinds[kind] or failed_count >= FAILED_MAX then break end
    kinds[kind](body, source_ms, now_ms, unsure_ms)
    mark = seq
    applied = applied + 1
  end
  done = done + 1
end

notify_plan(now_ms)
lane_plan()

lane_write(now_ms)
granted_write()
lost_write()
failed_write()
batch_save(now_ms)
notify_write()
queue_write()
local wrote = outbox_write()
ring_bell(nil, #granted_new > 0)
if applied > 0 then call('HSET', root .. 'hw', field, string.format('%.0f', mark)) end
return { mark, done, applied, wrote, now_us }
