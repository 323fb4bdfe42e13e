-- Lets a held batch end: at once where nothing is left to finish. On a batch that is not held it changes nothing.
--
-- @flags allow-oom
-- @key   meta      hash    {pN}:m
-- @arg   core      string  the batch
-- @arg   account   string  account id
-- @arg   keep_ms   int     how long a finished batch stays
-- @arg   now_ms    now     this shard's clock
-- @rest  fields            of the batch
-- @reply (string | null)[]   their values, read in this step: where memory is short a batch that ends with it may be deleted before another one. None where the account has no such batch
-- @cost  O(1)
-- @include lib/notify

local b = batch_visible(core, account)
if not b then return {} end
if b.h then
  b.h = nil
  b.released = true
  if batch_live(b) then batch_end(b, now_ms, keep_ms) end -- what was cancelled or has expired ends by itself
  notify_plan(now_ms)
  call('HDEL', b.key, 'h')
  batch_save(now_ms)
  notify_write()
  queue_write()
  ring_bell(tonumber(b.deadline))
end
return call('HMGET', b.key, unpack(fields, 1, #fields))
