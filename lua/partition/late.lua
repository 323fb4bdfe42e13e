-- Tells limiters of tasks whose requests were written later than they were granted, so that no span holds more than it may.
--
-- @flags allow-oom
-- @key   meta      hash    {pN}:m
-- @arg   now_ms    now     this shard's clock
-- @rest  lates             of each grant, and so late: lane, granted_ms, units, late_ms
-- @reply number            1
-- @cost  O(lates)
-- @include lib/outbox

for i = 1, #lates, 4 do
  outbox_send(now_ms, partition_of(lates[i]), 'late', table.concat(lates, ' ', i, i + 3))
end
return outbox_write()
