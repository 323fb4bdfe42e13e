-- Accepts single tasks: puts them into the account's open tray, or opens a new one.
--
-- A tray is a hidden batch that takes up to 1,000 tasks or one second: without status, list entry or expiry. A batch
-- of one each would cost 1.4 KB and 25 µs of Redis; in a tray a single task costs what a batch's task costs.
-- A repeated call with the same operation answers as the first.
--
-- @key   meta            hash    {pN}:m
-- @arg   core            string  name of the tray, should one be opened
-- @arg   account         string  account id
-- @arg   op              string  operation id (base 62)
-- @arg   total           int     tasks
-- @arg   records         bytes   their records one behind the other, each with its length in front (4 bytes)
-- @arg   ends            bytes   where each of them ends (4 bytes)
-- @arg   idem_key        string  idempotency record to write, '' for none; see lib/idem
-- @arg   idem_print      string  fingerprint of the request
-- @arg   idem_extra      bytes   what the answer needs besides the reply
-- @arg   now_ms          now     this shard's clock
-- @rest  parts           runs: count, then (from, to, origin, timeout_s, due_ms, limit) of each, from 0; limiters: count, then (name, lane, kind) of each
-- @reply [string, number, number]   tray ('' the idempotency key is taken), first index, created ms
-- @cost  O(bytes of records + runs); both are bounded by the caller
-- @include lib/append
-- @include lib/idem

if idem_taken() then return { '', 0, now_ms } end
local before = operation_before(op, now_ms)
if before then return { before.core, before.first, before.at_ms } end

local tray = root .. 'a:' .. account .. ':tray'
local open = call('GET', tray)
local b = open and batch_load(open)
if not b or b.n + total > SEGMENT_TASKS or b.q + #records > SEGMENT_BYTES or now_ms >= b.t + 1000 or now_ms < b.t then
  b = { core = core, key = root .. 'b:' .. core, a = account, s = 'tray', s_was = 'tray', n = 0, c = 0, f = 0, x = 0, r = 0, v = 0,
    t = now_ms, q = 0, k = 0, opened = true }
  batches[core] = b
  batches_loaded[#batches_loaded + 1] = b
end

local first = b.n
append_pages(b, records, ends, total)
b.n = first + total
local runs = tonumber(parts[1])
append_runs(b, parts, 2, runs, first, now_ms)
local lanes = lanes_read(b, parts, 2 + runs * 6, first)

if b.opened then
  call('HSET', b.key, 'a', account, 't', now_ms)
  call('SET', tray, core, 'PX', 5000)
end
b.deadline = ''
b.dirty = true
append_write(b, total)
operation_write(op, b.core, first, now_ms)
batch_save(now_ms)
queue_write()
lanes_write(b, lanes)
outbox_write()
ring_bell()
idem_write({ b.core, first, now_ms })
return { b.core, first, now_ms }
