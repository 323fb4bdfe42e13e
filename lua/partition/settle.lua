-- Counts outcomes of attempts, each once: only those whose reference is still in flight for this holder at their
-- attempt number. What was reaped, settled or handed back before is passed over, so a repeated call is harmless.
--
-- An outcome is `c` completed, `f` failed for good, `r` to be tried again at a time, `b` handed back uncounted.
-- A retry of a task whose batch ended meanwhile does not happen: its last outcome is final.
--
-- @flags allow-oom
-- @key   meta      hash    {pN}:m
-- @arg   holder    string  who held the attempts
-- @arg   keep_ms   int     how long a finished batch stays
-- @arg   tray_keep_ms int  how long a finished tray stays
-- @arg   now_ms    now     this shard's clock
-- @rest  outcomes          of each: member as in active:<holder>, outcome, delay_ms (of `r` and `b`), result (opaque, '' = none)
-- @reply [number, number, number, string]   this shard's time; outcomes counted; first due ms among what was delayed, 0 where none; one digit an outcome, 1 counted
-- @cost  O(outcomes)
-- @include lib/batch
-- @include lib/delayed

local active = root .. 'active:' .. holder
local members = {}
for i = 1, #outcomes, 4 do members[#members + 1] = outcomes[i] end
local held = {}
for i = 1, #members, 1000 do
  local part = call('ZMSCORE', active, unpack(members, i, math.min(i + 999, #members)))
  for j = 1, #part do held[i + j - 1] = part[j] end
end

local removed, marks, results, seen = {}, {}, {}, {}
local counted = {}

-- Neighbours with the same outcome become one write.
local function mark(b, i, state)
  local last = marks[#marks]
  if last and last.b == b and last.state == state and last.from + last.count == i then
    last.count = last.count + 1
  else
    marks[#marks + 1] = { b = b, state = state, from = i, count = 1 }
  end
end

local function result_of(b, i, text)
  local base = segment_bounds(b, i)
  local key = segment_key(b, base)
  local fields = results[key]
  if not fields then
    fields = {}
    results[key] = fields
  end
  fields[#fields + 1] = 'r' .. string.format('%.0f', i - base)
  fields[#fields + 1] = string.format('%.0f ', now_ms) .. text
end

local function settle(member, outcome, delay_ms, result)
  local ref = member_read(member)
  local b = batch_load(ref.core)
  if not b then return end
  b.r = b.r - 1
  b.dirty = true
  if not batch_live(b) and outcome == 'b' then
    -- Never began, and its batch is over: it ends as the rest of its batch did.
    if b.s == 'cancelled' then b.x = b.x + 1 else b.f = b.f + 1 end
    mark(b, ref.i, b.s == 'cancelled' and 'x' or 'f')
  elseif outcome == 'b' then
    local attempts = ref.attempt - 1
    mark(b, ref.i, attempts == 0 and 'q' or 'r')
    local due_ms = now_ms + delay_ms
    enqueue(now_ms, due_ms, ref.flow, entry_of(ref.core, ref.i, ref.i, attempts, ref.recoveries, ref.timeout_s, due_ms))
  elseif outcome == 'r' and batch_live(b) then
    mark(b, ref.i, 'r')
    result_of(b, ref.i, result)
    local due_ms = now_ms + delay_ms
    enqueue(now_ms, due_ms, flow_as('r', ref.flow), entry_of(ref.core, ref.i, ref.i, ref.attempt, ref.recoveries, ref.timeout_s, due_ms))
  else
    if outcome == 'c' then b.c = b.c + 1 else b.f = b.f + 1 end
    mark(b, ref.i, outcome == 'c' and 'c' or 'f')
    result_of(b, ref.i, result)
  end
  batch_end(b, now_ms, b.s == 'tray' and tray_keep_ms or keep_ms)
end

for k = 1, #members do
  local p = (k - 1) * 4
  if held[k] and not seen[members[k]] then
    seen[members[k]] = true
    removed[#removed + 1] = members[k]
    counted[k] = '1'
    settle(members[k], outcomes[p + 2], tonumber(outcomes[p + 3]), outcomes[p + 4])
  else
    counted[k] = '0'
  end
end

batch_touch()
queue_touch()
local written = {}
for _, m in ipairs(marks) do written[#written + 1] = m.b.key .. ':s' end
for key in pairs(results) do written[#written + 1] = key end
touch(written)

for i = 1, #removed, 1000 do call('ZREM', active, unpack(removed, i, math.min(i + 999, #removed))) end
for _, m in ipairs(marks) do call('SETRANGE', m.b.key .. ':s', m.from, m.count == 1 and m.state or string.rep(m.state, m.count)) end
for key, fields in pairs(results) do
  for i = 1, #fields, 1000 do call('HSET', key, unpack(fields, i, math.min(i + 999, #fields))) end
end
batch_save(now_ms)
queue_write()
return { now_ms, #removed, delays_first() or 0, table.concat(counted) }
