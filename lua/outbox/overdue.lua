-- Names references about which their lane should be asked: nobody has for `after_ms`, and no message about them waits.
--
-- What is looked at begins its wait again, so that others ask about the rest; one whose asker dies is named once more.
--
-- @flags allow-oom
-- @key   meta      hash    {pN}:m
-- @arg   after_ms  int     how long a reference is left alone; longer than a failover can lose
-- @arg   limit     int     references at most; never more than 500
-- @arg   now_ms    now     this shard's clock
-- @reply [number, number, [number, string, string][]]   this shard's time; 1 where more may be overdue; of each: partition of its lane, `<lane> <name>`, sequence of the last message about it
-- @cost  O(limit)
-- @include lib/outbox

local LIMIT_MAX = 500
local count = math.min(limit, LIMIT_MAX)
local fields = call('ZRANGEBYSCORE', root .. 'away:since', '-inf', now_ms - after_ms, 'LIMIT', 0, count)
if #fields == 0 then return { now_ms, 0, {} } end

local entries = call('HMGET', root .. 'away', unpack(fields, 1, #fields))
local named, since = {}, {}
for i, field in ipairs(fields) do
  local seq = string.match(entries[i], '^(%d+) ')
  local destination = partition_of(field)
  since[#since + 1] = now_ms
  since[#since + 1] = field
  if call('ZCOUNT', outbox_key(destination), seq, seq) == 0 then named[#named + 1] = { tonumber(destination), field, seq } end
end

call('ZADD', root .. 'away:since', unpack(since, 1, #since))
return { now_ms, #fields == count and 1 or 0, named }
