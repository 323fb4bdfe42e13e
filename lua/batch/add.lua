-- Puts tasks behind those of a batch that is pending or processing: all of them, or none.
--
-- Why a script: the first index of the new tasks, the counters and the queue must be one step, or two adds collide.
-- Few tasks come as records and fill the last segment; many come as segments staged before, which are renamed.
-- A repeated call with the same operation answers as the first.
--
-- @key   meta            hash    {pN}:m
-- @arg   core            string  the batch
-- @arg   account         string  account id
-- @arg   op              string  operation id (base 62)
-- @arg   total           int     tasks added
-- @arg   expires_from_ms int     the latest execute_after among them, 0 where none
-- @arg   expiration_ms   int     the default life time, for a batch whose expiry moves
-- @arg   idem_key        string  idempotency record to write, '' for none; see lib/idem
-- @arg   idem_print      string  fingerprint of the request
-- @arg   idem_extra      bytes   what the answer needs besides the reply
-- @arg   now_ms          now     this shard's clock
-- @rest  parts           staged: count, then (key, tasks, bytes) of each; records: count, then each; runs: count, then (from, to, origin, timeout_s, due_ms, limit) of each, from 0; idempotency keys of tasks: count, then each, hashed; limiters: count, then (name, lane, kind) of each
-- @reply [string, string, number, number, number, number, number, number]   outcome (added, taken: the idempotency key is, missing, state, lost, repeat: a key is there already), status, n, c, f, x, updated ms, first index
-- @cost  O(segments + records + runs); all are bounded by the caller
-- @include lib/append
-- @include lib/notify
-- @include lib/idem

local b = batch_visible(core, account)
if not b then return { 'missing', '', 0, 0, 0, 0, 0, 0 } end

local function answer(outcome, first, updated)
  return { outcome, b.s, b.n, b.c, b.f, b.x, updated, first }
end

if idem_taken() then return answer('taken', 0, now_ms) end
local before = operation_before(op, now_ms)
if before then return answer('added', before.first, before.at_ms) end
if not batch_live(b) then return answer('state', 0, now_ms) end

local first = b.n
local staged, keys_staged = {}, {}
local at = 1
for _ = 1, tonumber(parts[1]) do
  staged[#staged + 1] = { key = root .. parts[at + 1], tasks = tonumber(parts[at + 2]), bytes = tonumber(parts[at + 3]) }
  keys_staged[#keys_staged + 1] = staged[#staged].key
  at = at + 3
end
for _, key in ipairs(keys_staged) do
  if call('EXISTS', key) == 0 then return answer('lost', 0, now_ms) end
end
at = at + 1
local records = tonumber(parts[at])
local runs_at = at + 1 + records
local runs = tonumber(parts[runs_at])
local keys_at = runs_at + 1 + runs * 6
local keyed = tonumber(parts[keys_at])
for i = 1, keyed, 1000 do
  for _, known in ipairs(call('SMISMEMBER', b.key .. ':k', unpack(parts, keys_at + i, keys_at + math.min(i + 999, keyed)))) do
    if known == 1 then return answer('repeat', 0, now_ms) end
  end
end
append_records(b, parts, at + 1, records)

local index = first + records
for _, segment in ipairs(staged) do
  segment_open(b, index)
  segment.to = b.key .. ':' .. string.format('%.0f', index)
  index = index + segment.tasks
  b.q = segment.bytes
end
b.n = first + total
append_runs(b, parts, runs_at + 1, runs, first, now_ms)
local lanes = lanes_read(b, parts, keys_at + keyed + 1, first)

b.n = first + total
b.dirty = true
notify_plan(now_ms)

if b.w and expires_from_ms > 0 and expires_from_ms + expiration_ms > (b.e or 0) then
  b.deadline = expires_from_ms + expiration_ms
  call('HSET', b.key, 'e', b.deadline)
end
for _, segment in ipairs(staged) do
  call('RENAME', segment.key, segment.to)
  call('PERSIST', segment.to)
end
append_write(b, total)
for i = 1, keyed, 1000 do call('SADD', b.key .. ':k', unpack(parts, keys_at + i, keys_at + math.min(i + 999, keyed))) end
operation_write(op, core, first, now_ms)
batch_save(now_ms)
notify_write()
queue_write()
lanes_write(b, lanes)
outbox_write()
ring_bell()
idem_write(answer('added', first, now_ms))
return answer('added', first, now_ms)
