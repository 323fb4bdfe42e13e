-- Runs the failed tasks of a failed or expired batch again, whatever their number: a new round, with an expiry of its own.
--
-- Nothing is walked: claims deal the tasks out, see lib/round. A batch has failed or expired for good only when nothing of
-- it runs any more, so a round begins when the one before has ended.
-- A repeated call with the same operation, or the same idempotency key, answers as the first.
--
-- @key   meta          hash    {pN}:m
-- @arg   core          string  the batch
-- @arg   account       string  account id
-- @arg   op            string  operation id (base 62)
-- @arg   expiration_ms int     life time of a round
-- @arg   idem_key      string  idempotency record to write, '' for none; see lib/idem
-- @arg   idem_print    string  fingerprint of the request
-- @arg   idem_extra    bytes   what the answer needs besides the reply
-- @arg   now_ms        now     this shard's clock
-- @reply [string, string, number, number, number, number, number]   outcome (retried, taken: the idempotency key is, missing, state, running: it expired and something of it still runs, nothing: no task of it has failed), status, n, c, f, x, updated ms
-- @cost  O(1)
-- @include lib/round
-- @include lib/delayed
-- @include lib/idem
-- @include lib/operation

local b = batch_visible(core, account)
if not b then return { 'missing', '', 0, 0, 0, 0, 0 } end

local function answer(outcome, updated_ms) return { outcome, b.s, b.n, b.c, b.f, b.x, updated_ms } end

if idem_taken() then return answer('taken', now_ms) end
local before = operation_before(op, now_ms)
if before then return answer('retried', before.at_ms) end
if b.s ~= 'failed' and b.s ~= 'expired' then return answer('state', now_ms) end
if not b.z then return answer('running', now_ms) end
if b.f == 0 then return answer('nothing', now_ms) end

b.f = 0
round_begin(b, expiration_ms, now_ms)
ready_push('f:' .. account .. ':*', entry_of(core, 0, b.n - 1, attempts_first(b), 0, 0, now_ms))

round_write(b)
call('HSET', b.key, 'o', string.format('0,%.0f', b.n - 1))
operation_write(op, core, 0, now_ms)
batch_save(now_ms)
queue_write()
ring_bell(b.e, false, now_ms)
idem_write(answer('retried', now_ms))
return answer('retried', now_ms)
