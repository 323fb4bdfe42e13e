-- What time brings to a partition: work becomes due, batches expire or are deleted, silent holders lose their work.
--
-- Liveness is judged here, by this shard's clock alone. A holder with work calls at least every 2.5 s; one silent for
-- `silence_ms` is reaped, and its silence is looked for at the very time when it is too long. If nobody called for a while
-- (Redis frozen, failover, clock step) all marks move with the gap first, so a thaw is not a massacre: but none forward to later
-- than QUIET of the silence ago, since who lives may be as quiet as that at any time. So the dead are gone soon after a gap, too.
-- Marks that a claim has made since then are as the clock is now, and stay.
--
-- @flags allow-oom
-- @key   meta       hash    {pN}:m
-- @arg   holder     string  who calls
-- @arg   silence_ms int     a holder silent for longer is taken for dead
-- @arg   gap_ms     int     longer than this without any call is nobody's fault
-- @arg   keep_ms    int     how long a finished batch stays
-- @arg   tray_keep_ms int   how long a finished tray stays
-- @arg   recoveries_max int a task whose holders died this often fails
-- @arg   pressure   int     1 where memory is short: the oldest finished batches go before their time
-- @arg   now_ms     now     this shard's clock
-- @reply [number, number, number, number, number, number, number, number, number, number, number]   this shard's time; next time something is due here, 0 unknown; 1 where more is due now; promoted; expired batches; recovered; deleted batches; 1 where work is ready; those of the deleted whose time had not come; origins with parked work; bits: 1 messages wait, 2 lanes should be asked, 4 a limiter has something to grant, 8 there is no work at all, now or later, 16 the caller has work in flight
-- @cost  O(200) due references, 50 batches, under pressure 100 more, 200 recovered ranges, 500 segments deleted
-- @include lib/limited
-- @include lib/granted
-- @include lib/lost
-- @include lib/notify
-- @include lib/stale
-- @include lib/suspect

local DUE_MAX, BATCHES_MAX, REAP_MAX, SEGMENTS_MAX, AWAY_MS, ALIVE_MS, QUIET = 200, 50, 200, 500, 30000, 2000, 0.3
-- Before their time so many batches, of so many segments, go in a call; the pause to the next leaves time to see that it helped.
local EARLY_LOOK, EARLY_MAX, EARLY_SEGMENTS, EARLY_PAUSE_MS = 100, 20, 20, 250
local more = 0
local holders, claims, delayed, deadlines = root .. 'holders', root .. 'claims', root .. 'delayed', root .. 'deadlines'

-- Most ticks find nothing: where nothing is left one read is enough, where nobody works and nothing is ready or due a few.
if pressure == 0 and call('EXISTS', root .. 'holders', root .. 'active:' .. holder, root .. 'ready:f', root .. 'ready:r', root .. 'ready:n',
  root .. 'parked', root .. 'granted', root .. 'outbox', root .. 'away:since', root .. 'lanes', delayed, deadlines) == 0 then
  return { now_ms, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8 }
end
local function first_of(key) return tonumber(call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]) end
local away_ms = (first_of(root .. 'away:since') or math.huge) + AWAY_MS
local lanes_ms = first_of(root .. 'lanes') or math.huge
if pressure == 0 and call('EXISTS', root .. 'holders', root .. 'active:' .. holder, root .. 'ready:f', root .. 'ready:r', root .. 'ready:n',
  root .. 'parked', root .. 'granted', root .. 'outbox') == 0 and call('HEXISTS', meta, 'stale') + call('HEXISTS', meta, 'scan') == 0 then
  local delayed_ms, deadline_ms = first_of(delayed), first_of(deadlines)
  local first_ms = math.min((delayed_ms or math.huge) - DUE_AHEAD_MS, deadline_ms or math.huge, away_ms)
  if first_ms > now_ms and lanes_ms > now_ms then
    local empty = not delayed_ms and away_ms == math.huge and lanes_ms == math.huge
    return { now_ms, first_ms < math.huge and first_ms or 0, 0, 0, 0, 0, 0, 0, 0, 0, empty and 8 or 0 }
  end
end

-- Holders.
local before = call('HMGET', meta, 'last', 'thaw', 'suspect', 'stale', 'scan')
local last_ms = tonumber(before[1] or now_ms)
local shift_ms = 0
if now_ms - last_ms > gap_ms then shift_ms = now_ms - last_ms end
if now_ms < last_ms then shift_ms = now_ms - last_ms end
-- Leases have the same grace: a call whose lease ran out meanwhile has ended, and its outcome is on its way.
local thaw_ms = shift_ms ~= 0 and now_ms or math.min(now_ms, tonumber(before[2] or 0))
local thawed = now_ms - thaw_ms >= silence_ms
local marks = call('HGETALL', root .. 'holders')
local silent, marks_new, others, first_silent_ms = {}, {}, 0, math.huge
-- As a mark is after a gap, and after a step back if it is from before it: such a mark is ahead of the clock.
local function mark_moved(seen_ms)
  local quiet_ms = now_ms - math.floor(QUIET * silence_ms)
  if seen_ms > now_ms then return math.max(math.min(now_ms, seen_ms + shift_ms), quiet_ms) end
  return shift_ms > 0 and math.max(seen_ms, math.min(seen_ms + shift_ms, quiet_ms)) or seen_ms
end
local mine = call('ZCARD', root .. 'active:' .. holder)
for i = 1, #marks, 2 do
  local name, was_ms = marks[i], tonumber(marks[i + 1])
  local seen_ms = mark_moved(was_ms)
  if name ~= holder then
    others = others + 1
    if now_ms - seen_ms > silence_ms then
      silent[#silent + 1] = name
    else
      first_silent_ms = math.min(first_silent_ms, seen_ms + silence_ms + 1)
      if seen_ms ~= was_ms then
        marks_new[#marks_new + 1] = name
        marks_new[#marks_new + 1] = seen_ms
      end
    end
  end
end

-- References that lost their holder, and those whose lease ran out.
local reaped, gone, recovered = {}, {}, 0
local marks_state = {}

local function lost_json(ref, recoveries)
  return string.format('[%.0f,%.0f,%.0f,null,null,"worker_lost","The process that ran this task was lost %.0f times."]',
    now_ms, ref.attempt % ROUND_ATTEMPTS, recoveries, recoveries)
end

-- One of those that were in flight at every death so far may be the cause. At the last chance they come back one after another, and
-- whoever calls them calls few at once, so that the next death is not that of many.
local function again(b, ref, from, to, recoveries, waiting)
  local function put(first, last, due_ms)
    limited_enqueue(b, now_ms, due_ms, flow_as('r', ref.flow), { core = ref.core, from = first, to = last, attempts = ref.attempt,
      recoveries = recoveries, timeout_s = ref.timeout_s, due_ms = due_ms, limit = waiting })
  end
  if recoveries < recoveries_max - 1 then return put(from, to, now_ms) end
  for i = from, to do put(i, i, suspect_next(now_ms, now_ms, before[3])) end
end

-- Gives back what is still in flight under a name: to the queue, or to the end where this happened too often.
local function recover(name, member)
  local ref = member_read(member)
  reaped[#reaped + 1] = { root .. 'active:' .. name, member }
  local b = ref and batch_load(ref.core)
  if not b then return end
  local states = call('GETRANGE', b.key .. ':s', ref.from, ref.to)
  local recoveries = ref.recoveries + 1
  local limit = ref.limit ~= '' and limit_read(ref.limit)
  local over = not batch_live(b) or recoveries >= recoveries_max
  for first, after in string.gmatch(states, '()' .. member_byte(ref) .. '+()') do
    local from, to = ref.from + first - 1, ref.from + after - 2
    recovered = recovered + to - from + 1
    -- Before they queue again: a slot that one has by then is that of its next attempt.
    if limit then limited_free(now_ms, limit, ref.core, from, to) end
    b.r = b.r - (to - from + 1)
    marks_state[#marks_state + 1] = { b.key .. ':s', from, string.rep(over and 'f' or 'r', to - from + 1) }
    if over then
      b.f = b.f + to - from + 1
      batch_ended(b, from, to - from + 1, 'f')
      lose(b, from, to, lost_json(ref, recoveries))
      if b.N then
        notify_use().finishes(b, b.c, b.f - (to - from + 1), b.x, now_ms, from, function() return lost_json(ref, recoveries) end)
      end
    else
      again(b, ref, from, to, recoveries, limit and limit.waiting or '')
    end
  end
  batch_end(b, now_ms, b.s == 'tray' and tray_keep_ms or keep_ms)
end

local reap_left = REAP_MAX
for _, name in ipairs(silent) do
  local members = reap_left > 0 and call('ZRANGE', root .. 'active:' .. name, 0, reap_left - 1) or {}
  for _, member in ipairs(members) do recover(name, member) end
  reap_left = reap_left - #members
  if reap_left > 0 then gone[#gone + 1] = name else more = 1 end
end
for i = 1, #marks, 2 do
  if reap_left > 0 and thawed then
    local late = call('ZRANGEBYSCORE', root .. 'active:' .. marks[i], '-inf', now_ms, 'LIMIT', 0, reap_left)
    local is_silent = false
    for _, name in ipairs(silent) do is_silent = is_silent or name == marks[i] end
    if not is_silent then
      for _, member in ipairs(late) do recover(marks[i], member) end
      reap_left = reap_left - #late
    end
  end
end

-- What became due. Neighbours that differ in nothing else become one range: a thousand schedules due at one second cost a claim and a
-- settlement of a few ranges then, not of a thousand.
local soon = call('ZRANGEBYSCORE', delayed, '-inf', now_ms + DUE_AHEAD_MS, 'WITHSCORES', 'LIMIT', 0, DUE_MAX)
local due, not_yet_ms = {}, nil
for i = 1, #soon, 2 do
  local text, at_ms = soon[i], tonumber(soon[i + 1])
  -- A range of many origins goes on to the flow of each.
  if at_ms > now_ms and (string.find(text, ';', 1, true) or string.find(text, ':*|', 1, true)) then
    not_yet_ms = not_yet_ms or at_ms
  else
    due[#due + 1] = text
  end
end
local alike, ranges_of = {}, {}
for _, text in ipairs(due) do
  local flow, core, from, to, rest = string.match(text, '^([^|]+)|(%w+),(%d+),(%d+)(,.*)$')
  if string.find(rest, ';', 1, true) then
    local entry = entry_read(string.match(text, '|(.*)$'))
    local b = batch_load(core)
    if b and batch_live(b) and not round_entry_stale(b, entry) then limited_hand(b, now_ms, flow, entry) end
  else
    local name = flow .. '|' .. core .. rest
    if not ranges_of[name] then
      ranges_of[name] = {}
      alike[#alike + 1] = { flow = flow, core = core, rest = rest, ranges = ranges_of[name] }
    end
    table.insert(ranges_of[name], { tonumber(from), tonumber(to) })
  end
end
for _, one in ipairs(alike) do
  table.sort(one.ranges, function(a, b) return a[1] < b[1] end)
  local from, to = one.ranges[1][1], one.ranges[1][2]
  local function push() ready_push(one.flow, string.format('%s,%.0f,%.0f%s', one.core, from, to, one.rest)) end
  for i = 2, #one.ranges do
    local range = one.ranges[i]
    if range[1] == to + 1 then
      to = range[2]
    else
      push()
      from, to = range[1], range[2]
    end
  end
  push()
end
if #soon == 2 * DUE_MAX and #due > 0 then more = 1 end

-- What limiters granted and nobody had room to start.
local returned = call('ZRANGEBYSCORE', root .. 'granted', '-inf', now_ms, 'LIMIT', 0, DUE_MAX)
for _, text in ipairs(returned) do
  local flow, entry = string.match(text, '^([^|]+)|(.*)$')
  limited_return(now_ms, flow, entry_read(entry))
  granted_take(text)
end
if #returned == DUE_MAX then more = 1 end

-- Batches whose expiry or retention has come.
local expired, purged, put_off, segments_left = 0, {}, {}, SEGMENTS_MAX
-- Notifications that are not delivered yet keep their batch, for as long as the longest schedule of tries and a good deal more.
local NOTES_KEEP_MS, NOTES_LOOK_MS = 86400000, 60000
local function notes_wait(b)
  local m = b.N and b.s ~= 'deleted' and batch_load(b.core .. 'n')
  return m and m.n > m.c + m.f + m.x
end
local function purge(b)
  local list = {}
  local bases = b.g and #b.g / 4 or 1
  local keep = math.max(0, bases - segments_left)
  for k = keep, bases - 1 do
    list[#list + 1] = segment_key(b, b.g and struct.unpack('>I4', b.g, k * 4 + 1) or 0)
  end
  segments_left = segments_left - #list
  if b.N then
    for _, of in ipairs({ 'n', 'n:s', 'n:0' }) do list[#list + 1] = b.key .. of end
  end
  local lists = {}
  if b.s ~= 'tray' then
    lists = label_keys(b.a, call('HGET', b.key, 'l') or '')
    lists[#lists + 1] = list_key(b)
    lists[#lists + 1] = list_key(b, b.s)
  end
  purged[#purged + 1] = { b = b, list = list, lists = lists, whole = keep == 0, g = b.g and string.sub(b.g, 1, keep * 4) }
end

local ended = call('ZRANGEBYSCORE', root .. 'deadlines', '-inf', now_ms, 'LIMIT', 0, BATCHES_MAX)
local orphans = {}
for _, core in ipairs(ended) do
  local b = batch_load(core)
  if not b then
    orphans[#orphans + 1] = core
  elseif b.s == 'pending' or b.s == 'processing' then
    batch_stop(b, 'expired', now_ms, keep_ms)
    limited_drop(b, now_ms)
    expired = expired + 1
  elseif segments_left > 0 and b.r == 0 and not b.deadline then -- one that ended just now stays its time
    if notes_wait(b) and now_ms < b.z + keep_ms + NOTES_KEEP_MS then
      put_off[#put_off + 1] = now_ms + NOTES_LOOK_MS
      put_off[#put_off + 1] = core
    else
      purge(b)
    end
  end
end
if #ended == BATCHES_MAX or segments_left <= 0 then more = 1 end

-- Under memory pressure the oldest of those that have finished go. They lie among batches that are not over, in the order
-- in which they will be deleted; a call looks at a part of them, from where the one before stopped (its rank, in `early`).
local early, early_rank = 0, nil
if pressure == 1 and segments_left > 0 then
  segments_left = math.min(segments_left, EARLY_SEGMENTS)
  local rank = tonumber(call('HGET', meta, 'early') or 0)
  local from = call('ZCOUNT', deadlines, '-inf', now_ms) + rank
  local listed = call('ZRANGE', deadlines, from, from + EARLY_LOOK - 1)
  local looked, stays = 0, 0
  for _, core in ipairs(listed) do
    if early == EARLY_MAX or segments_left <= 0 then break end
    looked = looked + 1
    local b = batch_load(core)
    if b and (b.s == 'tray' or not batch_live(b)) and b.n == b.c + b.f + b.x and b.r == 0 and not b.deadline
      and not notes_wait(b) then
      purge(b)
      purged[#purged].early = true
      early = early + 1
    else
      stays = stays + 1
    end
  end
  early_rank = looked == #listed and #listed < EARLY_LOOK and 0 or rank + stays
end

local stale_ms = stale_plan(before[4], before[5], now_ms)
notify_plan(now_ms)

-- When to come again, read before the first write as everything is.
local next_ms = 0
local function no_later(at_ms) if at_ms and (next_ms == 0 or at_ms < next_ms) then next_ms = at_ms end end
local function score_at(key, rank) return tonumber(call('ZRANGE', key, rank, rank, 'WITHSCORES')[2]) end
-- Where all that was read has to wait yet, so has what lies behind it.
local behind_ms = (#due > 0 or #soon < 2 * DUE_MAX) and score_at(delayed, #soon / 2)
no_later(behind_ms and behind_ms - DUE_AHEAD_MS)
no_later(not_yet_ms)
no_later(score_at(deadlines, #ended))
no_later(score_at(root .. 'granted', #returned))
no_later(delays_first())
no_later(stale_ms)
for _, b in ipairs(batches_loaded) do
  no_later(tonumber(b.deadline))
  if b.stale then no_later(now_ms + STALE_AFTER_MS) end
end
local flags = (away_ms <= now_ms and 2 or 0) + (lanes_ms <= now_ms and 4 or 0) + (mine > 0 and 16 or 0)
if away_ms > now_ms and away_ms < math.huge and (next_ms == 0 or away_ms < next_ms) then next_ms = away_ms end
if early > 0 or (early_rank or 0) > 0 then
  next_ms = math.min(next_ms > 0 and next_ms or math.huge, now_ms + EARLY_PAUSE_MS)
end
-- A partition where somebody has work is looked at often enough to notice his death.
if others > 0 or mine > 0 then next_ms = math.min(next_ms > 0 and next_ms or math.huge, now_ms + ALIVE_MS, first_silent_ms) end
local ready = (#plans_made > 0 or call('EXISTS', root .. 'ready:f', root .. 'ready:r', root .. 'ready:n') > 0) and 1 or 0

local parked = call('SCARD', root .. 'parked')

local waiting = call('EXISTS', root .. 'outbox')

call('HSET', meta, 'last', now_ms, 'thaw', thaw_ms)
suspect_write(now_ms)
if mine > 0 then
  call('HSET', holders, holder, now_ms)
else
  call('HDEL', holders, holder)
  call('HDEL', claims, holder)
end
if #marks_new > 0 then call('HSET', holders, unpack(marks_new, 1, #marks_new)) end
for _, pair in ipairs(reaped) do call('ZREM', pair[1], pair[2]) end
for i = 1, #gone do
  call('HDEL', holders, gone[i])
  call('HDEL', claims, gone[i])
end
for _, m in ipairs(marks_state) do call('SETRANGE', m[1], m[2], m[3]) end
lost_write()
granted_write()
if #due > 0 then call('ZREM', delayed, unpack(due, 1, #due)) end
stale_write()
if #put_off > 0 then call('ZADD', deadlines, unpack(put_off, 1, #put_off)) end
if #orphans > 0 then call('ZREM', deadlines, unpack(orphans, 1, #orphans)) end
batch_save(now_ms)
for _, p in ipairs(purged) do
  for i = 1, #p.list do call('UNLINK', p.list[i]) end
  for i = 1, #p.lists do call('ZREM', p.lists[i], p.b.core) end
  if p.whole then
    call('UNLINK', p.b.key, p.b.key .. ':s', p.b.key .. ':k', p.b.key .. ':lanes')
    call('ZREM', deadlines, p.b.core)
  else
    call('HSET', p.b.key, 'g', p.g, 's', 'deleted')
    if p.early then call('ZADD', deadlines, now_ms, p.b.core) end
  end
end
if early_rank then call('HSET', meta, 'early', early_rank) end
notify_write()
queue_write()
if outbox_write() == 1 or waiting == 1 then flags = flags + 1 end
return { now_ms, next_ms, more, #due, expired, recovered, #purged, ready, early, parked, flags }
