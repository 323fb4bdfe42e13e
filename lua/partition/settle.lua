-- Counts outcomes of attempts, each once: only of tasks that are still in flight under the name that this holder has.
--
-- Outcomes come in groups, one for each name in `active:<holder>`, as runs of neighbours. A group is counted whole or
-- not at all: where one of its tasks is not in flight under that name any more (reaped, settled or handed back before),
-- the reply shows what is, and the caller asks again with that. So a repeated call is harmless.
-- Outcomes: `c` completed, `f` failed for good, `r` to be tried again, `b` handed back before it started, `s` stopped
-- under way and not counted either, `k` not counted and back at once, since its limiter closes for a while, `u` failed for good without
-- having started: what its limiter took for it comes back.
-- A rate limiter hears of what it must know: units that come back, slots that are free, the points that were used.
-- A retry of a task whose batch ended meanwhile does not happen: its last outcome is final.
--
-- @flags allow-oom
-- @key   meta      hash    {pN}:m
-- @arg   holder    string  who held the attempts
-- @arg   keep_ms   int     how long a finished batch stays
-- @arg   tray_keep_ms int  how long a finished tray stays
-- @arg   now_ms    now     this shard's clock
-- @rest  parts             of each group: name; runs: count, then (from, tasks, outcome) of each; results: count, then (field, records) of each; delays: count, then (task, delay_ms) of each `r`, `b`, `s` and `k`; where the name has a limiter: count, then (`points`, difference) or (`cool`, ms)
-- @reply [number, number, string[], number, number]   this shard's time; first due ms among what was delayed, 0 where none; of each group '' counted, '-' name gone, else its tasks' state bytes; 1 where work is ready now; 1 where messages were written
-- @cost  O(runs + pages + delays)
-- @include lib/batch
-- @include lib/limited
-- @include lib/notify
-- @include lib/results

local active = root .. 'active:' .. holder
local flags, seen, gone, marks, results, touched = {}, {}, {}, {}, {}, {}

-- Reads one group; returns it and where the next begins.
local function group_read(at)
  local group = { name = parts[at], runs = {}, results = {}, delays = {}, told = {} }
  local function list(into, width)
    local count = tonumber(parts[at + 1])
    at = at + 1
    for i = 1, count do
      -- One of width 2 has the next one's first as its third, which nobody reads: a table made at once costs a third of one that grows.
      into[i] = { parts[at + 1], parts[at + 2], parts[at + 3] }
      at = at + width
    end
  end
  list(group.runs, 3)
  list(group.results, 2)
  list(group.delays, 2)
  if string.find(group.name, ';', 1, true) then list(group.told, 2) end
  return group, at + 1
end

-- Whether every task of the group is in flight under its name; how many of the name's tasks are.
local function in_flight(group, ref, states)
  local settled = 0
  for _, run in ipairs(group.runs) do
    local first, tasks = tonumber(run[1]) - ref.from + 1, tonumber(run[2])
    local part = string.sub(states, first, first + tasks - 1)
    if part ~= string.rep('p', tasks) and not (part == 'P' and ref.from == ref.to) then return nil end
    settled = settled + tasks
  end
  return settled, #states - #string.gsub(states, member_byte(ref) .. '+', '')
end

-- What a run of outcomes makes of the counters; returns the byte that its tasks get.
local UNCOUNTED = { b = true, s = true, k = true }
local function count_run(b, outcome, tasks)
  b.r = b.r - tasks
  if (outcome == 'r' or UNCOUNTED[outcome]) and batch_live(b) then return 'r' end
  if outcome == 'c' then
    b.c = b.c + tasks
    return 'c'
  end
  if outcome == 'b' or outcome == 's' then
    -- Never began, and its batch is over: it ends as what waited did, whose bytes are read by the batch's status.
    if b.s == 'cancelled' then b.x = b.x + tasks else b.f = b.f + tasks end
    return 'r'
  end
  b.f = b.f + tasks
  return 'f'
end

local function queue_again(b, ref, limit, outcome, i, delay_ms)
  local due_ms = now_ms + delay_ms
  local attempts = UNCOUNTED[outcome] and ref.attempt - 1 or ref.attempt
  local flow = (outcome == 'b' or outcome == 's') and ref.flow or flow_as('r', ref.flow)
  if not limit then return enqueue(now_ms, due_ms, flow, entry_of(ref.core, i, i, attempts, ref.recoveries, ref.timeout_s, due_ms)) end
  local entry = { core = ref.core, from = i, to = i, attempts = attempts, recoveries = ref.recoveries, timeout_s = ref.timeout_s,
    due_ms = due_ms, limit = limit.waiting }
  if outcome == 'b' and delay_ms == 0 then return limited_back(now_ms, flow, entry, i, i, limit) end
  if outcome == 'b' then limited_unused(now_ms, limit, ref.core, i, i) end
  limited_enqueue(b, now_ms, due_ms, flow, entry)
end

-- What a limiter must know of a group; its pauses come before what is handed to it again.
local function limiter_told(group, ref)
  local limit = limit_read(ref.limit)
  for _, told in ipairs(group.told) do
    outbox_send(now_ms, partition_of(limit.lane), told[1], limit.lane .. ' ' .. told[2])
  end
  return limit
end

local function limiter_freed(b, group, ref, limit)
  local live = batch_live(b)
  for _, run in ipairs(group.runs) do
    local from, to = tonumber(run[1]), tonumber(run[1]) + tonumber(run[2]) - 1
    if run[3] == 'u' or run[3] == 'b' and not live then
      limited_unused(now_ms, limit, ref.core, from, to)
    elseif run[3] ~= 'b' then
      limited_free(now_ms, limit, ref.core, from, to)
    end
  end
end

-- All of a group lie in one segment.
local function results_write(b, ref, base, list)
  if #list == 0 then return end
  local segment, names = segment_key(b, base), {}
  for i, result in ipairs(list) do names[i] = result[1] end
  local stored = call('HMGET', segment, unpack(names, 1, #names))
  local fields = results[segment] or {}
  results[segment] = fields
  for i, result in ipairs(list) do
    local field, records = result[1], result[2]
    local before = fields[field] or stored[i] or ''
    -- A first attempt has nothing to replace, but where a limiter's pause gave one back uncounted.
    if #before > 0 and (ref.attempt > 1 or ref.limit ~= '') then before = results_replaced(before, records) end
    fields[field] = before .. records
  end
end

-- Notes that a run of a group gets this byte. What lies between two runs is written along with them, as it is: a write is as dear as a
-- hundred bytes. Nobody else changes it in this script, but for a later start (`P`), which has a name of its own.
local function mark_run(b, ref, states, last, from, tasks, byte)
  local bytes, at = string.rep(byte, tasks), from - ref.from
  if last and at >= last.to then
    local between = string.sub(states, last.to + 1, at)
    if not string.find(between, 'P', 1, true) then
      last.bytes[#last.bytes + 1] = between
      last.bytes[#last.bytes + 1] = bytes
      last.to = at + tasks
      return last
    end
  end
  local mark = { key = b.key .. ':s', from = from, to = at + tasks, bytes = { bytes } }
  marks[#marks + 1] = mark
  return mark
end

local function settle(group)
  local ref = member_read(group.name)
  local b = ref and batch_load(ref.core)
  if seen[group.name] or not b or not call('ZSCORE', active, group.name) then return '-' end
  local states = call('GETRANGE', b.key .. ':s', ref.from, ref.to)
  local settled, flying = in_flight(group, ref, states)
  if not settled then return states end
  seen[group.name] = true
  local outcomes, mark = {}, nil
  for _, run in ipairs(group.runs) do
    local from, tasks = tonumber(run[1]), tonumber(run[2])
    if #group.delays > 0 then
      for i = from, from + tasks - 1 do outcomes[i] = run[3] end
    end
    local c, f, x = b.c, b.f, b.x
    local byte = count_run(b, run[3], tasks)
    batch_ended(b, from, tasks, byte)
    mark = mark_run(b, ref, states, mark, from, tasks, byte)
    if b.N then
      local use = notify_use()
      use.finishes(b, c, f, x, now_ms, from, function() return use.result_in(group.results, (segment_bounds(b, ref.from)), from) end)
    end
  end
  local limit = ref.limit ~= '' and limiter_told(group, ref)
  -- Before the same tasks queue again: a slot that one has by then is that of its next attempt.
  if limit then limiter_freed(b, group, ref, limit) end
  if batch_live(b) then
    for _, delay in ipairs(group.delays) do
      local i = tonumber(delay[1])
      queue_again(b, ref, limit, outcomes[i], i, tonumber(delay[2]))
    end
  end
  results_write(b, ref, (segment_bounds(b, ref.from)), group.results)
  if settled == flying then gone[#gone + 1] = group.name end
  touched[b] = true
  return ''
end

local at = 1
while at <= #parts do
  local group
  group, at = group_read(at)
  flags[#flags + 1] = settle(group)
end
for b in pairs(touched) do batch_end(b, now_ms, b.s == 'tray' and tray_keep_ms or keep_ms) end
notify_plan(now_ms)

for i = 1, #gone, 1000 do call('ZREM', active, unpack(gone, i, math.min(i + 999, #gone))) end
for _, mark in ipairs(marks) do call('SETRANGE', mark.key, mark.from, table.concat(mark.bytes)) end
for segment, fields in pairs(results) do
  local list = {}
  for field, text in pairs(fields) do
    list[#list + 1] = field
    list[#list + 1] = text
  end
  call('HSET', segment, unpack(list, 1, #list))
end
batch_save(now_ms)
notify_write()
queue_write()
return { now_ms, delays_first() or 0, flags, #plans_made > 0 and 1 or 0, outbox_write() }
