-- Runs a failed task of a tray or of an unfinished batch again, its attempts at zero.
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
-- @arg   now_ms    now     this shard's clock
-- @reply string            queued, missing, state
-- @cost  O(1)
-- @include lib/batch
-- @include lib/limited
-- @include lib/results

local b = batch_load(core)
if not b or b.a ~= account or b.s == 'deleted' or index >= b.n then return 'missing' end
if call('GETRANGE', b.key .. ':s', index, index) ~= 'f' or not batch_live(b) then return 'state' end

b.f = b.f - 1
b.deadline = b.s == 'tray' and '' or nil
b.dirty = true
local lane, kind = nil, nil
if limiter ~= '' then lane, kind = lane_of_name(b, limiter, index) end
run_enqueue(b, now_ms, 'f:' .. account .. ':' .. origin, index, index, timeout_s, now_ms,
  lane and string.format('%s,%s,%.0f,%.0f', lane, kind, cost, valid_ms) or '')
local base = segment_bounds(b, index)
local segment = segment_key(b, base)
local field = result_field(index - base)
local before = call('HGET', segment, field) or ''
touch({ segment, b.key .. ':s' })
batch_touch()
queue_touch()
outbox_touch()
-- `r`: this start has a name of its own, since the first one's range may still be in flight.
call('SETRANGE', b.key .. ':s', index, 'r')
call('HSET', segment, field, results_without(before, (index - base) % 16))
batch_save(now_ms)
queue_write()
outbox_write()
ring_bell()
outbox_bell()
return 'queued'
