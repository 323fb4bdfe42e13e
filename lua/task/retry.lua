-- Runs a failed task again, its attempts at zero. In a batch that has failed or expired that is a new round of this task
-- alone, see lib/round; an expired one is swept before (batch/sweep).
--
-- @key   meta      hash    {pN}:m
-- @arg   core      string  its batch or tray
-- @arg   index     int     its place in it
-- @arg   account   string  account id
-- @arg   origin    string  its target's origin, hashed
-- @arg   timeout_s int     its attempts' total deadline
-- @arg   expiration_ms int life time of a round
-- @arg   now_ms    now     this shard's clock
-- @reply string            queued, missing, state, sweep: the batch is to be swept first
-- @cost  O(1)
-- @include lib/round
-- @include lib/delayed

local b = batch_load(core)
if not b or b.a ~= account or b.s == 'deleted' or index >= b.n then return 'missing' end
local byte = call('GETRANGE', b.key .. ':s', index, index)
local round = not batch_live(b)
if round then
  if not b.z or (b.s ~= 'failed' and b.s ~= 'expired') then return 'state' end
  if b.s == 'expired' and b.f > 0 and tonumber(call('HGET', b.key, 'y') or '0') < b.n then return 'sweep' end
end
if (byte ~= 'f' and byte ~= 'e') or (not round and task_waits(b, index, byte)) then return 'state' end

b.f = b.f - 1
b.dirty = true
if round then
  round_begin(b, expiration_ms, now_ms)
elseif b.s == 'tray' then
  b.deadline = ''
end
ready_push('f:' .. account .. ':' .. origin, entry_of(core, index, index, attempts_first(b), 0, timeout_s, now_ms))
local base = segment_bounds(b, index)
-- `r`: this start has a name of its own, since the first one's range may still be in flight.
round_deal(b, base, index, index)
round_touch()
batch_touch()
queue_touch()

if round then round_write(b) end
round_deals_write()
batch_save(now_ms)
queue_write()
ring_bell()
return 'queued'
