-- Cancels a batch: every task not running becomes cancelled at once, whatever their number; running ones finish and count.
--
-- Nothing is walked: the bytes of waiting tasks are read by the batch's status, and their queue entries are dropped
-- when a claim meets them. Lanes of limiters are told.
--
-- @flags allow-oom
-- @key   meta      hash    {pN}:m
-- @arg   core      string  the batch
-- @arg   account   string  account id
-- @arg   keep_ms   int     how long a finished batch stays
-- @arg   now_ms    now     this shard's clock
-- @reply [string, string, number, number, number, number, number]   outcome (cancelled, missing, state), status, n, c, f, x, updated ms
-- @cost  O(limiters of the batch), at most 1,000
-- @include lib/limited
-- @include lib/notify

local b = batch_visible(core, account)
if not b then return { 'missing', '', 0, 0, 0, 0, 0 } end
local updated_ms = now_ms
local outcome = 'cancelled'
if batch_live(b) then
  batch_stop(b, 'cancelled', now_ms, keep_ms)
  limited_drop(b, now_ms)
  notify_plan(now_ms)
  batch_save(now_ms)
  notify_write()
  queue_write()
  outbox_write()
  ring_bell(tonumber(b.deadline))
  outbox_bell()
else
  if b.s ~= 'cancelled' then outcome = 'state' end
  updated_ms = tonumber(call('HGET', b.key, 'u'))
end
return { outcome, b.s, b.n, b.c, b.f, b.x, updated_ms }
