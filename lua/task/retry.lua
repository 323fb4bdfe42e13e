-- Runs a failed task again, its attempts at zero. In a batch that has failed or expired that is a new round of this task
-- alone, see lib/round; an expired one is swept before (batch/sweep).
--
-- @key   meta      hash    {pN}:m
-- @arg   core      string  its batch or tray
-- @arg   index     int     its place in it
-- @arg   account   string  account id
-- @arg   origin    string  its target's origin, hashed
-- @arg   timeout_s int     its attempts' total deadline
-- @arg   limiter   string  name of its rate limiter, '' for none
-- @arg   cost      int     units that it takes from it
-- @arg   valid_ms  int     its valid_until, 0 for none
-- @arg   due_ms    int     its execute_after, 0 for none: as in a round of all it does not start sooner
-- @arg   expiration_ms int life time of a round
-- @arg   op        string  operation id (base 62); a repeated call with the same one changes nothing
-- @arg   now_ms    now     this shard's clock
-- @reply string            queued, missing, state, sweep: the batch is to be swept first
-- @cost  O(1)
-- @include lib/limited
-- @include lib/operation
-- @include lib/round

local b = batch_load(core)
if not b or b.a ~= account or b.s == 'deleted' or index >= b.n then return 'missing' end
if operation_before(op, now_ms) then return 'queued' end
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
local lane, kind = nil, nil
if limiter ~= '' then lane, kind = lane_of_name(b, limiter, index) end
run_enqueue(b, now_ms, 'f:' .. account .. ':' .. origin, index, index, timeout_s, math.max(now_ms, due_ms),
  lane and string.format('%s,%s,%.0f,%.0f', lane, kind, kind == 'p' and cost or 1, valid_ms) or '')
local base = segment_bounds(b, index)
-- `r`: this start has a name of its own, since the first one's range may still be in flight.
round_deal(b, base, index, index)

if round then round_write(b) end
round_deals_write()
batch_save(now_ms)
queue_write()
outbox_write()
operation_write(op, core, index, now_ms)
ring_bell(round and b.e or nil, false, now_ms)
outbox_bell()
return 'queued'
