-- Cancels one task that is not running and not finished. The lane of its limiter is told.
--
-- @flags allow-oom
-- @key   meta      hash    {pN}:m
-- @arg   core      string  its batch or tray
-- @arg   index     int     its place in it
-- @arg   account   string  account id
-- @arg   limiter   string  name of its rate limiter, '' for none
-- @arg   due_ms    int     its execute_after, 0 for none
-- @arg   keep_ms   int     how long a finished batch stays
-- @arg   tray_keep_ms int  how long a finished tray stays
-- @arg   now_ms    now     this shard's clock
-- @reply string            cancelled (also when it was before), missing, state
-- @cost  O(1); with a limiter O(tasks of its segment), at most 1,000
-- @include lib/limited
-- @include lib/notify

local b = batch_load(core)
if not b or b.a ~= account or b.s == 'deleted' or index >= b.n then return 'missing' end
local state = call('GETRANGE', b.key .. ':s', index, index)
if state == 'x' then return 'cancelled' end
if not task_waits(b, index, state) then return 'state' end
if not batch_live(b) then return b.s == 'cancelled' and 'cancelled' or 'state' end

b.x = b.x + 1
batch_ended(b, index, 1, 'x')
b.stale = state == 'r' or due_ms > now_ms -- it may be in `delayed`
batch_end(b, now_ms, b.s == 'tray' and tray_keep_ms or keep_ms)
-- Before its time it is in no line.
if limiter ~= '' and due_ms <= now_ms then limited_leave(b, now_ms, index, state, limiter) end
notify_plan(now_ms)
call('SETRANGE', b.key .. ':s', index, 'x')
batch_save(now_ms)
notify_write()
queue_write()
outbox_write()
ring_bell(tonumber(b.deadline))
outbox_bell()
return 'cancelled'
