-- Makes a batch real: its segments were written before, under names that expire; here they get their own, and its work
-- is queued.
--
-- Why a script: all tasks of a batch exist or none does, and counters, lists, states and queue begin as one.
-- A repeated call (the reply was lost) changes nothing and answers as the first.
--
-- @key   meta            hash    {pN}:m
-- @arg   core            string  the new batch
-- @arg   account         string  account id
-- @arg   doc             bytes   what the caller gave besides tasks, opaque JSON
-- @arg   total           int     tasks
-- @arg   last_bytes      int     bytes in the last segment, for later appends
-- @arg   expiration_ms   int     life time
-- @arg   expires_from_ms int     the latest execute_after, 0 where none or where the caller gave an expiration
-- @arg   movable         int     1 where the expiry moves with the latest execute_after of added tasks
-- @arg   hold            int     1 where it is held open until it is released
-- @arg   labels          string  hashes of its labels, 10 characters each
-- @arg   notify          string  which notifications it sends, see lib/notify; '' for none
-- @arg   idem_key        string  idempotency record to write, '' for none; see lib/idem
-- @arg   idem_print      string  fingerprint of the request
-- @arg   idem_extra      bytes   what the answer needs besides the reply
-- @arg   now_ms          now     this shard's clock
-- @rest  parts           segments: count, then each one's first index; runs: count, then (from, to, origin, timeout_s, due_ms, limit) of each; idempotency keys of tasks: count, then each, hashed; limiters: count, then (name, lane, kind) of each
-- @reply [number, number]        1 made or made before, 0 segments expired, 2 idempotency key taken; created_at ms
-- @cost  O(segments + runs); both are bounded by the caller
-- @include lib/batch
-- @include lib/limited
-- @include lib/idem

local key = root .. 'b:' .. core
local before = call('HGET', key, 't')
if before then return { 1, tonumber(before) } end
if idem_taken() then return { 2, now_ms } end

local staged, segments, bases = {}, {}, {}
local at = 1
for _ = 1, tonumber(parts[1]) do
  at = at + 1
  staged[#staged + 1] = key .. ':+new:' .. parts[at]
  segments[#segments + 1] = key .. ':' .. parts[at]
  bases[#bases + 1] = struct.pack('>I4', tonumber(parts[at]))
end
local found = 0
for i = 1, #staged, 1000 do found = found + call('EXISTS', unpack(staged, i, math.min(i + 999, #staged))) end
if found < #staged then return { 0, now_ms } end

at = at + 1
local runs = tonumber(parts[at])
local b = { core = core, key = key, n = total, k = 0, g = #bases > 1 and table.concat(bases) or nil }
for i = 0, runs - 1 do
  local p = at + i * 6
  run_enqueue(b, now_ms, 'f:' .. account .. ':' .. parts[p + 3], tonumber(parts[p + 1]), tonumber(parts[p + 2]), tonumber(parts[p + 4]),
    tonumber(parts[p + 5]), parts[p + 6])
end

at = at + runs * 6 + 1
local keyed = tonumber(parts[at])
local lanes = lanes_read(b, parts, at + keyed + 1, 0)

local list = root .. 'a:' .. account .. ':b'
local label_lists = label_keys(account, labels)

local expires_ms = math.max(now_ms, expires_from_ms) + expiration_ms
call('HSET', key, 'a', account, 's', 'pending', 'n', total, 'c', 0, 'f', 0, 'x', 0, 'r', 0, 'v', 1, 't', now_ms, 'u', now_ms,
  'e', expires_ms, 'q', last_bytes, 'd', doc)
if movable == 1 then call('HSET', key, 'w', '1') end
if hold == 1 then call('HSET', key, 'h', '1') end
for i = 1, keyed, 1000 do call('SADD', key .. ':k', unpack(parts, at + i, at + math.min(i + 999, keyed))) end
if b.g then call('HSET', key, 'g', b.g) end
call('SET', key .. ':s', string.rep('q', total))
for i = 1, #segments do
  call('RENAME', staged[i], segments[i])
  call('PERSIST', segments[i])
end
call('ZADD', list, now_ms, core)
call('ZADD', list .. ':pending', now_ms, core)
if labels ~= '' then call('HSET', key, 'l', labels) end
if notify ~= '' then call('HSET', key, 'N', notify) end
for _, label_list in ipairs(label_lists) do call('ZADD', label_list, now_ms, core) end
call('ZADD', root .. 'deadlines', expires_ms, core)
queue_write()
lanes_write(b, lanes)
outbox_write()
ring_bell(expires_ms, false, now_ms)
idem_write({ 1, now_ms })
return { 1, now_ms }
