-- Books what lanes said about references: what they hold is confirmed, what they do not know and still waits is handed over again.
--
-- An answer counts only where the last message about the reference is still the one that was asked about; and not for
-- long, since a failover of this side, which takes longer, can bring back what it was asked about. A confirmed one is
-- asked about again after as long as it has been away by now, at most an hour.
--
-- @flags allow-oom
-- @key   meta      hash    {pN}:m
-- @arg   asked_ms  int     time of this shard that outbox/overdue told
-- @arg   now_ms    now     this shard's clock
-- @rest  answers           of each: `<lane> <name>`, sequence as outbox/overdue named it, 1 where its lane holds it
-- @reply [number, number, number]   confirmed; handed over again; forgotten, since nothing of them waits
-- @cost  O(answers)
-- @include lib/limited

local AGAIN_MS_MAX, ANSWER_MS_MAX = 3600000, 1000
if now_ms < asked_ms or now_ms - asked_ms >= ANSWER_MS_MAX then return { 0, 0, 0 } end

local confirmed, again, forgotten = {}, 0, 0

-- What still waits of the range goes to the end of the line; true where something does.
local function hand_again(field, text)
  local flow, entry = string.match(text, '^([^|]+)|(.*)$')
  entry = entry_read(entry)
  local b = batch_load(entry.core)
  local first = string.find(limited_states(b, entry), '[qr]')
  if not first then return false end
  entry.from = entry.from + first - 1
  away_forget(field)
  limited_hand(b, now_ms, flow, entry)
  return true
end

for i = 1, #answers, 3 do
  local field, known = answers[i], answers[i + 2] == '1'
  local seq, text = string.match(call('HGET', root .. 'away', field) or '', '^(%d+) (.*)$')
  if seq == answers[i + 1] then
    if known then
      confirmed[#confirmed + 1] = whole(now_ms + math.max(0, math.min(AGAIN_MS_MAX, now_ms - seq / 1000)))
      confirmed[#confirmed + 1] = field
    elseif hand_again(field, text) then
      again = again + 1
    else
      away_forget(field)
      forgotten = forgotten + 1
    end
  end
end

for i = 1, #confirmed, 1000 do call('ZADD', root .. 'away:since', unpack(confirmed, i, math.min(i + 999, #confirmed))) end
outbox_write()
return { #confirmed / 2, again, forgotten }
