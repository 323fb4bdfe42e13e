-- Tells limiters of tasks whose requests were written later than they were granted, so that no span holds more than it may.
--
-- @flags allow-oom
-- @key   meta      hash    {pN}:m
-- @arg   now_ms    now     this shard's clock
-- @rest  lates             of each grant: lane, granted_ms, units
-- @reply number            1
-- @cost  O(lates)
-- @include lib/outbox

for i = 1, #lates, 3 do
  outbox_send(now_ms, partition_of(lates[i]), 'late', lates[i] .. ' ' .. lates[i + 1] .. ' ' .. lates[i + 2])
end
return outbox_write()
