-- Queues tasks again that wait and lie in no queue, or that are in flight and held by nobody: what a lost write left behind.
--
-- The caller has looked through everything that may hold them, twice, while the batch stayed the same; where it is not, nothing is done.
-- Were such a task in a queue nevertheless, one of the two entries would find that it does not wait any more.
-- A task in flight has begun: its attempt counts. Where its batch is over it ends as what waited did.
--
-- @flags allow-oom
-- @key   meta      hash    {pN}:m
-- @arg   core      string  the batch, tray or companion
-- @arg   seen      string  the state that the caller saw (lib/seen)
-- @arg   keep_ms   int     how long a finished batch stays
-- @arg   tray_keep_ms int  how long a finished tray stays
-- @arg   now_ms    now     this shard's clock
-- @rest  parts             of each stretch, 500 tasks in all at most: from, to, origin ('*' all that a round has not reached), timeout_s, due_ms, attempts so far, name of its limiter or '', cost, valid_ms
-- @reply [number, number, string]   tasks that waited; tasks that were in flight; what names the state of the batch now, '' where it was not the same any more
-- @cost  O(tasks)
-- @include lib/seen
-- @include lib/limited
-- @include lib/notify

local b = batch_load(core)
if not b or batch_seen(b) ~= seen then return { 0, 0, '' } end
local live = batch_live(b)
local waited, flew, marks = 0, 0, {}
local cls = b.s == 'notes' and 'n' or 'f'

local function push(from, to, flown, place)
  local due_ms = math.max(now_ms, tonumber(place[5]))
  local lane, kind
  if place[7] ~= '' then lane, kind = lane_of_name(b, place[7], from) end
  local limit = lane and string.format(';%s,%s,%.0f,%.0f,%s', lane, kind, kind == 'p' and place[8] or 1, due_ms, place[9]) or ''
  local again = flown or tonumber(place[6]) > 0
  limited_enqueue(b, now_ms, due_ms, (again and cls == 'f' and 'r' or cls) .. ':' .. b.a .. ':' .. place[3], { core = core, from = from, to = to,
    attempts = attempts_first(b) + place[6] + (flown and 1 or 0), recoveries = flown and 1 or 0, timeout_s = tonumber(place[4]),
    due_ms = due_ms, limit = limit })
end

for at = 1, #parts, 9 do
  local place = { unpack(parts, at, at + 8) }
  local from, to = tonumber(place[1]), tonumber(place[2])
  if place[3] == '*' then
    if live then
      ready_push('f:' .. b.a .. ':*', entry_of(core, from, to, attempts_first(b), 0, 0, now_ms))
      waited = waited + to - from + 1
    end
  else
    local states = call('GETRANGE', b.key .. ':s', from, to)
    for first, after in string.gmatch(states, '()[pP]+()') do
      local tasks, first_task = after - first, from + first - 1
      flew = flew + tasks
      b.r = b.r - tasks
      b.dirty = true
      marks[#marks + 1] = { first_task, string.rep('r', tasks) }
      if live then
        push(first_task, first_task + tasks - 1, true, place)
      elseif b.s == 'cancelled' then
        b.x = b.x + tasks
      else
        b.f = b.f + tasks
      end
    end
    for first, after in string.gmatch(states, '()[qr]+()') do
      if live then
        waited = waited + after - first
        push(from + first - 1, from + after - 2, false, place)
      end
    end
  end
end
-- Also where nothing was in flight: who counted this state too is too late.
b.dirty = true
if flew > 0 then batch_end(b, now_ms, b.s == 'tray' and tray_keep_ms or keep_ms) end
notify_plan(now_ms)

for _, mark in ipairs(marks) do call('SETRANGE', b.key .. ':s', mark[1], mark[2]) end
batch_save(now_ms)
notify_write()
queue_write()
outbox_write()
ring_bell()
outbox_bell()
b.v = b.v + 1
return { waited, flew, batch_seen(b) }
