-- Takes up to `budget` tasks that may run now and puts them in flight for `holder`.
--
-- Why a script: a task is in the queue, in flight or finished, never in two of them and never in none.
-- Fair by construction: classes share 6:1:1, in each class accounts take turns, in an account its flows, in a flow its
-- batches; what is left of a range goes back to the end. What rate limiters granted comes before all that. A flow whose origin has no room is parked, not claimed. Ranges of batches that are over are dropped when met.
-- A repeated call number (the reply was lost) returns the same references and takes nothing.
--
-- @flags allow-oom
-- @key   meta      hash    {pN}:m
-- @arg   holder    string  who holds what is taken
-- @arg   call_no   int     number of this call of this holder, growing
-- @arg   budget    int     tasks; a page rounds up to 15 more
-- @arg   room      int     tasks of one origin at most, where `limits` does not name it
-- @arg   recoveries_max int a task whose holders died this often fails
-- @arg   grace_ms  int     lease beyond a task's own total deadline
-- @arg   notes     int     notifications at most, a page rounds up too
-- @arg   suspects  int     those at their last chance at most; others wait at the end of their line; -1: the call ends where it meets one
-- @arg   now_ms    now     this shard's clock
-- @rest  limits            origins that have room again ('*' all): count, then each; origins with little room: count, then (origin, tasks) of each
-- @reply [number, number, number, string[], unknown[], number, number]   this shard's time; 1 where more may be ready, 2 where notifications are beyond `notes`; first due ms among what was delayed, 0 where none; origins parked, or left with what was granted to them, for want of room; of each run: name in active, core, account, from, to, attempt, recoveries, due_ms, segment base, first page, 1 of a tray and 2 of notifications, pages, us since a limiter granted it, less than 0 where its time has not come; of the first run of notifications of a batch also its document and when it was created; 1 where messages were written; 1 where it ended at one that is at its last chance, 2 where it brought or put off some
-- @cost  O(budget + visits), visits at most 96
-- @include lib/limited
-- @include lib/granted
-- @include lib/parked
-- @include lib/round
-- @include lib/suspect

local WINDOW, VISITS_MAX, PAGE_TASKS, EXPAND, GRANTED_MAX = 48, 96, 16, 250, 128
-- A grant with less of its life left may not be written in time. So it goes back as a range, with one message; from its process it would be
-- one for each task. So does one whose time seems far: the clock was set back.
local SPARE = 0.25
-- So soon a new holder is looked for; he calls as often as that.
local ALIVE_MS = 2000
-- Tasks that an account takes of an origin's room in any case, where there is so much.
local SHARE_MIN = 8
local visits = 0
local expanded = false
-- Grants that another call may start: some were not looked at, or have more than this one may take.
local granted_left = false
local runs, active, starts, saved = {}, {}, {}, {}
local left = budget
-- At the next death those count that were claimed, whether they ran or not.
local suspects_left, suspects_met = suspects, 0
-- Origins without room for all that was granted to them.
local starved = {}

-- The pages that hold tasks from..to of one segment.
local function pages_of(b, base, from, to)
  local fields = {}
  for page = math.floor((from - base) / PAGE_TASKS), math.floor((to - base) / PAGE_TASKS) do
    fields[#fields + 1] = string.format('%d', page)
  end
  return call('HMGET', segment_key(b, base), unpack(fields, 1, #fields))
end

-- What notifications are made from, once for each batch.
local parents = {}
local function parent_of(b)
  if b.s ~= 'notes' or parents[b.core] then return nil end
  parents[b.core] = true
  return call('HMGET', string.sub(b.key, 1, -2), 'd', 't')
end

local function add_run(b, ref, member, base, from, to, due_ms, age_us)
  runs[#runs + 1] = { member, b.core, b.a, from, to, ref.attempt % ROUND_ATTEMPTS, ref.recoveries, due_ms, base, math.floor((from - base) / PAGE_TASKS),
    b.s == 'tray' and 1 or b.s == 'notes' and 2 or 0, pages_of(b, base, from, to), age_us, parent_of(b) }
end

local function replay()
  local saved = call('HGET', root .. 'claims', holder)
  if not saved or string.match(saved, '^(%d+) ') ~= string.format('%d', call_no) then return false end
  for member, due_ms in string.gmatch(saved, '(%S+)@(%d+)') do
    local ref = member_read(member)
    local b = ref and batch_load(ref.core)
    if b and call('ZSCORE', root .. 'active:' .. holder, member) then
      local states = call('GETRANGE', b.key .. ':s', ref.from, ref.to)
      local base = segment_bounds(b, ref.from)
      for first, after in string.gmatch(states, '()' .. member_byte(ref) .. '+()') do
        add_run(b, ref, member, base, ref.from + first - 1, ref.from + after - 2, tonumber(due_ms), ref.limit ~= '' and limit_read(ref.limit).life_ms * 1000 or 0)
      end
    end
  end
  return true
end

-- What it was to let go of stays parked.
if replay() then return { now_ms, 1, 0, { '*' }, runs, 0, 0 } end

local rooms = {}
local rooms_at = unpark_all(limits, 1)
for i = 1, tonumber(limits[rooms_at]) do rooms[limits[rooms_at + i * 2 - 1]] = tonumber(limits[rooms_at + i * 2]) end
local function room_of(origin) return rooms[origin] or room end

-- Puts tasks from..to of a live batch in flight under one name.
local function start(b, base, from, to, entry, flow, byte)
  local ref = { attempt = entry.attempts + 1, recoveries = entry.recoveries }
  local member = member_of(b.core, from, to, ref.attempt, ref.recoveries, entry.timeout_s, flow, entry.limit)
  active[#active + 1] = now_ms + entry.timeout_s * 1000 + grace_ms
  active[#active + 1] = member
  starts[#starts + 1] = { b.key .. ':s', from, string.rep(byte, to - from + 1) }
  saved[#saved + 1] = member .. '@' .. string.format('%d', entry.due_ms)
  b.r = b.r + to - from + 1
  b.dirty = true
  if b.s == 'pending' then b.s, b.begun = 'processing', now_ms end
  add_run(b, ref, member, base, from, to, entry.due_ms, entry.age_us or 0)
  return to - from + 1
end

-- State bytes from task `from` on, where what this claim has started is not waiting any more: after a failover a task may be
-- granted twice.
local function without_taken(b, from, states)
  local bytes = {}
  for i = 1, #states do bytes[i] = b.taken[from + i - 1] and 'p' or string.sub(states, i, i) end
  return table.concat(bytes)
end

-- Takes about `chunk` tasks from the front of a range, never more than `most`; returns how many started and what is left.
local function take_range(b, entry, chunk, most, flow)
  local base, segment_end = segment_bounds(b, entry.from)
  local to = math.min(entry.to, entry.from + chunk - 1)
  -- Whole pages, so that no page is read twice; never beyond this segment.
  to = math.min(entry.to, entry.from + most - 1, segment_end, base + math.ceil((to - base + 1) / PAGE_TASKS) * PAGE_TASKS - 1)
  local states = call('GETRANGE', b.key .. ':s', entry.from, to)
  if b.taken then states = without_taken(b, entry.from, states) end
  local started, at = 0, 1
  while true do
    local first = string.find(states, '[qr]', at)
    if not first then break end
    local waiting = string.sub(states, first, first)
    at = string.find(states, waiting == 'q' and '[^q]' or '[^r]', first) or #states + 1
    local start_from, start_to = entry.from + first - 1, entry.from + at - 2
    if waiting == 'q' then
      started = started + start(b, base, start_from, start_to, entry, flow, 'p')
    else
      for i = start_from, start_to do started = started + start(b, base, i, i, entry, flow, 'P') end
    end
  end
  return started, to + 1
end

-- A range whose tasks go to many origins, or that a round has begun again: its segment's map of runs, written at creation,
-- gives them to their flows.
local function expand(b, entry)
  expanded = true
  local base, segment_end = segment_bounds(b, entry.from)
  local last = math.min(entry.to, segment_end)
  local undealt = round_undealt(b, entry)
  local map = call('HGET', segment_key(b, base), 'm') or ''
  local states = undealt and call('GETRANGE', b.key .. ':s', entry.from, last)
  local done, next_from = 0, nil
  for from, to, origin, timeout_s, due_ms, limit in string.gmatch(map, '(%d+),(%d+),(%w+),(%d+),(%d+),?([^;]*);') do
    from, to, due_ms = tonumber(from) + base, tonumber(to) + base, tonumber(due_ms)
    if to >= entry.from and from <= last then
      local stretches = { { from, to } }
      if undealt then stretches = round_stretches(states, entry.from, math.max(from, entry.from), math.min(to, last)) end
      for _, stretch in ipairs(stretches) do
        if done == EXPAND then next_from = stretch[1] break end
        done = done + 1
        if undealt then round_deal(b, base, stretch[1], stretch[2]) end
        run_enqueue(b, now_ms, 'f:' .. b.a .. ':' .. origin, stretch[1], stretch[2], tonumber(timeout_s), due_ms, limit, entry.due_ms)
      end
      if next_from then break end
    end
  end
  if not next_from and entry.to > segment_end then next_from = segment_end + 1 end
  if undealt then round_reached(b, next_from) end
  return next_from
end

local function is_suspect(entry) return entry.recoveries >= recoveries_max - 1 end

-- Starts what waits of a granted range, as far as there is room; tells the lane what does not wait any more.
local function take_granted(b, entry, flow, origin, member, until_ms)
  local first, limit = #starts, limit_read(entry.limit)
  entry.age_us = math.floor((limit.life_ms - (tonumber(until_ms) - now_ms)) * 1000)
  local started, from = take_range(b, entry, math.min(left, room_of(origin)), room_of(origin), flow)
  if is_suspect(entry) then suspects_left = suspects_left - started end
  local at = entry.from
  for i = first + 1, #starts + 1 do
    local next_at = starts[i] and starts[i][2] or from
    if next_at > at then limited_unused(now_ms, limit, entry.core, at, next_at - 1) end
    if starts[i] then
      at = next_at + #starts[i][3]
      b.taken = b.taken or {}
      for task = next_at, at - 1 do b.taken[task] = true end
    end
  end
  rooms[origin] = room_of(origin) - started
  granted_take(member)
  if from <= entry.to then
    if rooms[origin] <= 0 then starved[origin] = true else granted_left = true end
    granted_add(until_ms, flow .. '|' .. entry_of(entry.core, from, entry.to, entry.attempts, entry.recoveries, entry.timeout_s,
      entry.due_ms, entry.limit))
  end
  return started
end

-- What one of so many accounts may take of an origin's room: so much at least that it is worth a visit.
local function room_share(origin, peers)
  local room = room_of(origin)
  return math.max(1, math.min(room, math.max(SHARE_MIN, math.ceil(room / peers))))
end

local function visit_flow(cls, account, origin, chunk, peers)
  local flow = cls .. ':' .. account .. ':' .. origin
  local ring = ring_read(root .. 'f:' .. flow, WINDOW)
  local started = 0
  while started == 0 and visits < VISITS_MAX do
    local text = ring_take(ring)
    if not text then break end
    visits = visits + 1
    local entry = entry_read(text)
    local suspect = is_suspect(entry)
    local b = batch_load(entry.core)
    local live = b and batch_live(b) and not round_entry_stale(b, entry)
    if live and suspect and suspects < 0 then
      ring_untake(ring)
      suspects_met, visits = 1, VISITS_MAX
      break
    end
    depth[cls] = depth[cls] - (entry.to - entry.from + 1)
    if live and suspect and suspects_left <= 0 then
      entry.due_ms = suspect_next(now_ms, now_ms + SUSPECT_PAUSE_MS)
      limited_enqueue(b, now_ms, entry.due_ms, flow, entry)
      suspects_met = 2
    elseif live then
      local left_from
      if origin == '*' then
        left_from = expand(b, entry)
      else
        local most = room_share(origin, peers)
        started, left_from = take_range(b, entry, chunk, suspect and math.min(most, suspects_left) or most, flow)
        if suspect then suspects_left, suspects_met = suspects_left - started, 2 end
        if left_from > entry.to then left_from = nil end
      end
      if left_from then
        depth[cls] = depth[cls] + entry.to - left_from + 1
        ring_put(ring, entry_of(entry.core, left_from, entry.to, entry.attempts, entry.recoveries, entry.timeout_s, entry.due_ms))
      end
      if origin == '*' then break end
    end
  end
  return started, ring
end

-- `peers` accounts have work, perhaps for the same origin: each may take its share of the room that is left.
local function visit_account(cls, account, chunk, peers)
  local flows = ring_read(root .. 'ready:' .. cls .. ':' .. account, WINDOW)
  local origin = ring_take(flows)
  if not origin then return 0, flows end
  if origin ~= '*' and room_of(origin) <= 0 then
    park(cls, account, origin)
    return 0, flows
  end
  local share = math.max(8, math.ceil(chunk / math.min(8, ring_left(flows) + 1)))
  local started, ring = visit_flow(cls, account, origin, share, peers)
  rooms[origin] = room_of(origin) - started
  if ring_left(ring) > 0 or not ring.whole then
    if room_of(origin) > 0 or origin == '*' then ring_put(flows, origin) else park(cls, account, origin) end
  end
  return started, flows
end

local function serve(cls, quota)
  local accounts = ring_read(root .. 'ready:' .. cls, WINDOW)
  local left = quota
  while left > 0 and visits < VISITS_MAX do
    local account = ring_take(accounts)
    if not account then break end
    visits = visits + 1
    local chunk = math.min(left, math.max(8, math.ceil(quota / (ring_left(accounts) + 1))))
    local started, flows = visit_account(cls, account, chunk, ring_left(accounts) + 1)
    left = left - started
    if ring_left(flows) > 0 or not flows.whole then ring_put(accounts, account) end
  end
  return quota - left
end

-- Notifications have places of their own, so that slow webhooks never take those of tasks.
local notes_left = notes
-- Weights by turns: of eight calls six begin with fresh work, one with retries, one with notifications, and each
-- class has its share of the budget before another may take what it leaves.
local turn = call_no % 8
local order = turn == 6 and { 'r', 'f', 'n' } or turn == 7 and { 'n', 'f', 'r' } or { 'f', 'r', 'n' }
local weight = { f = 6, r = 1, n = 1 }
-- Grants first: their units are spent whether they start or not. What its origin has no room for stays till its time is over.
local granted = call('ZRANGE', root .. 'granted', 0, GRANTED_MAX - 1, 'WITHSCORES')
local without_room = 0
for i = 1, #granted, 2 do
  if left <= 0 then
    granted_left = true
    break
  end
  local flow, text = string.match(granted[i], '^([^|]+)|(.*)$')
  local entry = entry_read(text)
  local origin = string.match(flow, '([%w*]+)$')
  local b, limit = batch_load(entry.core), limit_read(entry.limit)
  local left_ms = tonumber(granted[i + 1]) - now_ms
  if not b or not batch_live(b) or round_entry_stale(b, entry) then
    limited_unused(now_ms, limit, entry.core, entry.from, entry.to)
    granted_take(granted[i])
  elseif left_ms < SPARE * limit.life_ms and limit.kind ~= 'c' or left_ms > limit.life_ms + GRANT_AHEAD_MS_MAX then
    limited_return(now_ms, flow, entry)
    granted_take(granted[i])
  elseif room_of(origin) <= 0 then
    without_room = without_room + 1
    starved[origin] = true
  else
    left = left - take_granted(b, entry, flow, origin, granted[i], granted[i + 1])
  end
end
-- Where all of these wait for room, so may those behind them.
if #granted == 2 * GRANTED_MAX and without_room < GRANTED_MAX then granted_left = true end
-- Where one class alone has work, all of it is one visit: a range of its own for each share would cost as much again.
local classes = 0
for _, cls in ipairs(order) do
  if ring_left(ring_read(root .. 'ready:' .. cls, WINDOW)) > 0 then classes = classes + 1 end
end
for round = 1, 2 do
  for _, cls in ipairs(order) do
    if left > 0 then
      local quota = round == 1 and classes > 1 and math.min(left, math.max(1, math.floor(budget * weight[cls] / 8))) or left
      if cls == 'n' then quota = math.min(quota, notes_left) end
      local started = quota > 0 and serve(cls, quota) or 0
      if cls == 'n' then notes_left = notes_left - started end
      left = left - started
    end
  end
end

-- Whether a class has accounts that another call may find something of: some were not looked at, or have more than this one may take.
local function has_more(cls)
  local accounts = ring_read(root .. 'ready:' .. cls, WINDOW)
  return ring_left(accounts) > 0 or not accounts.whole
end
-- What was dealt out from maps is in no ring that was read.
local more = (has_more('f') or has_more('r') or expanded or granted_left) and 1 or 0
if more == 0 and has_more('n') then more = notes_left > 0 and 1 or 2 end

local holders = root .. 'holders'
local alone = call('HLEN', holders) == 0

rings_put()
queue_write()
rings_trim()
local parked = parked_write()
for origin in pairs(starved) do parked[#parked + 1] = origin end
granted_write()
for i = 1, #active, 1000 do call('ZADD', root .. 'active:' .. holder, unpack(active, i, math.min(i + 999, #active))) end
for _, s in ipairs(starts) do call('SETRANGE', s[1], s[2], s[3]) end
round_deals_write()
for _, b in ipairs(batches_loaded) do
  if b.dirty and b.s == b.s_was then
    call('HSET', b.key, 'r', b.r, 'v', b.v + 1)
    b.dirty = false
  end
end
batch_save(now_ms)
suspect_write(now_ms)
if #runs > 0 then
  call('HSET', root .. 'claims', holder, string.format('%d ', call_no) .. table.concat(saved, ' '))
  -- Where nobody held anything nobody called: what `tick` would take for a gap is none.
  if alone then call('HSET', meta, 'last', now_ms) end
  -- Who owns the partition may not know that another works here, too (one that takes itself for the owner still), and look again
  -- only after many seconds. Were that one to die now, so long nobody would miss it.
  if call('HSET', holders, holder, now_ms) == 1 then
    call('SPUBLISH', root .. 'bell', string.format('%d', now_ms + ALIVE_MS))
  end
end
return { now_ms, more, delays_first() or 0, parked, runs, outbox_write(), suspects_met }
