-- @include lib/append
-- @include lib/schedule
-- One run of a schedule: a task in its account's tray, or a batch whose segments are copies of the template's.
-- Planned by run_plan, which writes nothing; then run_write. `parts` hold the first indexes of the
-- segments: count, then each; runs: count, then (from, to, origin, timeout_s, due_ms, limit) of each, from 0; limiters: count, then
-- (name, lane, kind) of each.
local RUNS_KEPT, RUNS_TRIMMED = 10, 4
local run = nil

local function with_member(object, members) return string.sub(object, 1, -2) .. members .. '}' end

local function plan_task(s, tick_ms, tray_core, list, runs_at, now)
  local template = call('HMGET', s.doc, 'h', 'p')
  local tray = root .. 'a:' .. s.a .. ':tray'
  local open = call('GET', tray)
  local b = open and batch_load(open)
  if not b or b.n + 1 > SEGMENT_TASKS or b.q >= SEGMENT_BYTES or now >= b.t + 1000 or now < b.t then
    b = { core = tray_core, key = root .. 'b:' .. tray_core, a = s.a, s = 'tray', s_was = 'tray', n = 0, c = 0, f = 0, x = 0, r = 0, v = 0,
      t = now, q = 0, k = 0, opened = true }
    batches[tray_core] = b
    batches_loaded[#batches_loaded + 1] = b
  end
  local head = with_member(template[1], string.format(',"at":%.0f,"for":%.0f', now, tick_ms) .. run.trace)
  append_records(b, { struct.pack('>I2', #head) .. head .. (template[2] or '') }, 1, 1)
  b.n = b.n + 1
  append_runs(b, list, runs_at + 1, tonumber(list[runs_at]), b.n - 1, now)
  run.batch, run.index, run.tray, run.tasks = b, b.n - 1, tray, 1
end

-- False where a staged segment is gone.
local function plan_batch(s, tick_ms, batch_core, list, runs_at, staged, now)
  local key = root .. 'b:' .. batch_core
  local template = call('HMGET', s.doc, 'o', 'r')
  local total, last_bytes, expiration_ms, movable, hold, labels, notify = string.match(template[2], '^(%d+) (%d+) (%d+) (%d) (%d) (%w*) (%S*)$')
  run.segments = {}
  local bases = {}
  for i = 2, runs_at - 1 do
    local base = list[i]
    local from = staged == 1 and key .. ':+new:' .. base or schedule_segment(s, s.g, base)
    if call('EXISTS', from) == 0 then return false end
    run.segments[#run.segments + 1] = { from = from, to = key .. ':' .. base, base = tonumber(base) }
    bases[#bases + 1] = struct.pack('>I4', tonumber(base))
  end
  local b = { core = batch_core, key = key, a = s.a, k = 0, n = tonumber(total), g = #bases > 1 and table.concat(bases) or nil }
  append_runs(b, list, runs_at + 1, tonumber(list[runs_at]), 0, now)
  run.batch, run.index, run.tasks, run.last_bytes, run.labels, run.staged = b, 0, b.n, last_bytes, labels, staged == 1
  run.movable, run.hold, run.notify = movable == '1', hold == '1', notify
  run.keys_from = schedule_segment(s, s.g, 'k')
  -- Its life begins with its time: a short one would otherwise end before that.
  run.expires_ms = math.max(now, tick_ms) + tonumber(expiration_ms)
  run.doc = with_member(template[1], string.format(',"schedule_id":"sched_%s","scheduled_for":%.0f', s.core, tick_ms) .. run.trace)
  run.lists = label_keys(s.a, labels)
  run.lists[#run.lists + 1] = list_key(b)
  run.lists[#run.lists + 1] = list_key(b, 'pending')
  return true
end

-- `flags` as in the list of runs; `trace`: members for the head of a task and the document of a batch. False where a staged segment is gone.
local function run_plan(s, tick_ms, core, list, staged, flags, now, trace)
  run = { s = s, tick_ms = tick_ms, flags = flags, trace = trace or '' }
  local runs_at = 2 + tonumber(list[1])
  if s.y == 't' then
    plan_task(s, tick_ms, core, list, runs_at, now)
  elseif not plan_batch(s, tick_ms, core, list, runs_at, staged, now) then
    return false
  end
  run.lanes = lanes_read(run.batch, list, runs_at + 1 + tonumber(list[runs_at]) * 6, run.index)
  -- What retention took leaves the list a few at a time; the newest stay, to tell when there was a run.
  run.gone = {}
  if call('ZCARD', s.runs) >= RUNS_KEPT then
    for _, member in ipairs(call('ZRANGE', s.runs, 0, RUNS_TRIMMED - 1)) do
      if call('EXISTS', root .. 'b:' .. run_read(member).core) == 0 then run.gone[#run.gone + 1] = member end
    end
  end
  return true
end

local function write_task(now)
  local b = run.batch
  if b.opened then
    call('SET', run.tray, b.core, 'PX', 5000)
  else
    b.deadline = ''
  end
  b.dirty = true
  append_write(b, 1)
  batch_save(now)
end

local function write_batch(now)
  local key = run.batch.key
  for _, segment in ipairs(run.segments) do
    if run.staged then
      call('RENAME', segment.from, segment.to)
      call('PERSIST', segment.to)
    else
      call('COPY', segment.from, segment.to)
    end
  end
  call('HSET', key, 'a', run.s.a, 's', 'pending', 'n', run.tasks, 'c', 0, 'f', 0, 'x', 0, 'r', 0, 'v', 1, 't', now, 'u', now,
    'e', run.expires_ms, 'q', run.last_bytes, 'd', run.doc)
  if run.movable then call('HSET', key, 'w', '1') end
  if run.hold then call('HSET', key, 'h', '1') end
  if run.labels ~= '' then call('HSET', key, 'l', run.labels) end
  if run.notify ~= '' then call('HSET', key, 'N', run.notify) end
  if run.batch.g then call('HSET', key, 'g', run.batch.g) end
  call('COPY', run.keys_from, key .. ':k')
  call('SET', key .. ':s', string.rep('q', run.tasks))
  for _, list in ipairs(run.lists) do call('ZADD', list, now, run.batch.core) end
  call('ZADD', root .. 'deadlines', run.expires_ms, run.batch.core)
end

local function run_write(now)
  if run.tray then write_task(now) else write_batch(now) end
  queue_write()
  lanes_write(run.batch, run.lanes)
  outbox_write()
  ring_bell(run.expires_ms, false, now)
  outbox_bell()
  if #run.gone > 0 then call('ZREM', run.s.runs, unpack(run.gone, 1, #run.gone)) end
  call('ZADD', run.s.runs, run.tick_ms,
    string.format('%s,%s,%.0f,%.0f,%s', run.s.y, run.batch.core, run.index, now, run.flags))
  call('HINCRBY', run.s.key, 'n', 1)
end
