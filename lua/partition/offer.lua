-- Makes the offer of this holder to take the next single task, says whether it stands, or takes it back; see lib/free.
--
-- Taken back is one's own alone: a partition that changes its process may have the next one's already.
--
-- @flags allow-oom
-- @key   meta      hash    {pN}:m
-- @arg   does      string  make, check, end
-- @arg   holder    string  whose
-- @arg   call_no   int     number of his next claim
-- @arg   grace_ms  int     lease beyond a task's own total deadline
-- @arg   now_ms    now     this shard's clock
-- @reply [number, number]  this shard's time; 1 where an offer of his stands now
-- @cost  O(1)
-- @include lib/root

local stands = does == 'make'
if not stands then stands = string.match(call('HGET', meta, 'free') or '', '^%S+') == holder end
if does == 'make' then call('HSET', meta, 'free', string.format('%s %d %d', holder, call_no, grace_ms)) end
if does == 'end' and stands then call('HDEL', meta, 'free') end
return { now_ms, stands and does ~= 'end' and 1 or 0 }
