-- Books what lanes said about references: what is as it is wanted is confirmed, what is not is sent again.
--
-- An answer counts only where the last message about the reference is still the one that was asked about; and not for
-- long, since a failover of this side, which takes longer, can bring back what it was asked about. One that is
-- wanted there and is there is asked about again after as long as it has been away by now, at most an hour. One that is
-- wanted gone and is gone is forgotten.
--
-- @flags allow-oom
-- @key   meta      hash    {pN}:m
-- @arg   asked_ms  int     time of this shard that outbox/overdue told
-- @arg   now_ms    now     this shard's clock
-- @rest  answers           of each: `<lane> <reference>`, sequence as outbox/overdue named it, 1 where its lane holds it
-- @reply [number, number, number]   confirmed; sent again; forgotten
-- @cost  O(answers)
-- @include lib/outbox
-- @include lib/receive/lane

local AGAIN_MS_MAX, ANSWER_MS_MAX = 3600000, 1000
if now_ms < asked_ms or now_ms - asked_ms >= ANSWER_MS_MAX then return { 0, 0, 0 } end

local confirmed, gone, again = {}, {}, 0
for i = 1, #answers, 3 do
  local field, known = answers[i], answers[i + 2] == '1'
  local wanted, seq, place = string.match(call('HGET', root .. 'away', field) or '', '^(%a) (%d+) (%d+)$')
  local lane, ref = lane_split(field)
  if seq == answers[i + 1] then
    if wanted == 'q' and known then
      confirmed[#confirmed + 1] = whole(now_ms + math.max(0, math.min(AGAIN_MS_MAX, now_ms - place / 1000)))
      confirmed[#confirmed + 1] = field
    elseif wanted == 'r' and not known then
      gone[#gone + 1] = field
    else
      again = again + 1
      if wanted == 'q' then outbox_hand(now_ms, lane, ref, place) else outbox_release(now_ms, lane, ref) end
    end
  end
end

outbox_touch()
for i = 1, #confirmed, 1000 do call('ZADD', root .. 'away:since', unpack(confirmed, i, math.min(i + 999, #confirmed))) end
for i = 1, #gone, 1000 do
  call('HDEL', root .. 'away', unpack(gone, i, math.min(i + 999, #gone)))
  call('ZREM', root .. 'away:since', unpack(gone, i, math.min(i + 999, #gone)))
end
outbox_write()
return { #confirmed / 2, again, #gone }
