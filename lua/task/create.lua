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
-- @arg   place           int     where in its page the first of them is expected to lie
-- @arg   idem_key        string  idempotency record to write, '' for none; see lib/idem
-- @arg   idem_print      string  fingerprint of the request
-- @arg   idem_extra      bytes   what the answer needs besides the reply
-- @arg   now_ms          now     this shard's clock
-- @rest  parts           pages: count, then each, cut by `place`; runs: count, then (from, to, origin, timeout_s, due_ms, limit) of each, from 0; limiters: count, then (name, lane, kind) of each
-- @reply [string, number, number]   tray ('' the idempotency key is taken), first index, created ms
-- @cost  O(bytes of records + runs); both are bounded by the caller
-- @include lib/append
-- @include lib/idem
-- @include lib/free

if idem_taken() then return { '', 0, now_ms } end
local before = operation_before(op, now_ms)
if before then return { before.core, before.first, before.at_ms } end

local pages = tonumber(parts[1])
local bytes = 0
for i = 2, pages + 1 do bytes = bytes + #parts[i] end
local tray = root .. 'a:' .. account .. ':tray'
local open = call('GET', tray)
local b = open and batch_load(open)
if not b or b.n + total > SEGMENT_TASKS or b.q + bytes > SEGMENT_BYTES or now_ms >= b.t + 1000 or now_ms < b.t then
  b = { core = core, key = root .. 'b:' .. core, a = account, s = 'tray', s_was = 'tray', n = 0, c = 0, f = 0, x = 0, r = 0, v = 0,
    t = now_ms, q = 0, k = 0, opened = true }
  batches[core] = b
  batches_loaded[#batches_loaded + 1] = b
end

local first = b.n
append_pages(b, parts, 2, pages, place)
b.q = b.q + bytes
b.n = first + total
local runs = tonumber(parts[2 + pages])
local at = 3 + pages
local reply = { b.core, first, now_ms }

local function tray_write(states)
  if b.opened then
    call('SET', tray, core, 'PX', 5000)
  elseif first == b.c + b.f + b.x then
    b.deadline = '' -- a tray of which all is over has one
  end
  b.dirty = true
  append_write(b, total, states)
  operation_write(op, b.core, first, now_ms)
  batch_save(now_ms)
end

-- Most that come alone end here: nothing of what the others need is made then (scripts/lua-needed.ts).
if total == 1 and parts[at + 5] == '' and tonumber(parts[at + 4]) <= now_ms
  and free_plan(b, segment_last(b), first, parts[2], parts[at + 2], tonumber(parts[at + 3]), math.max(now_ms, tonumber(parts[at + 4]))) then
  tray_write('p')
  free_write(now_ms)
  idem_write(reply)
  return reply
end

append_runs(b, parts, at, runs, first, now_ms)
local lanes = lanes_read(b, parts, at + runs * 6, first)
tray_write()
queue_write()
lanes_write(b, lanes)
outbox_write()
ring_bell()
idem_write(reply)
return reply
