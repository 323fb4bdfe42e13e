-- @include lib/root
-- Lanes: the queues of limiters that lie in this partition. A lane is changed in memory and written once, so that what a script
-- does later sees what it did before. The contract with outbox/receive, outbox/ask and the scripts of limiters:
--   kinds.<kind>(body, source_ms, now_ms, unsure_ms)   plans what a message does to its lane (lib/receive/<kind>.lua)
--   lane_plan()                             reads what lane_write needs, before the first write
--   lane_write()                            writes all lanes that were changed, and rings the bell where one can grant now
-- Bodies, after `<seq> <kind> `. E is `<flow>|<entry with suffix>`. granted_ms and place are whole numbers, as a grant brought them.
--   queue  <lane> <E>                                        to the end of the line
--   back   <lane> <place> <granted_ms> <E>                   granted and not started: to its old place, its units given back
--   unused <lane> <granted_ms> <tasks> <units> <core> <from> <to>   granted and gone: its units given back
--   late   <lane> <granted_ms> <units> <late_ms>             granted, and started so much later
--   free   <lane> <core> <from> <to>                         these slots are free
--   points <lane> <difference>                               actual less estimate
--   cool   <lane> <ms>                                       closed for so long
--   drop   <lane> <core>                                     all of that batch leaves
--   leave  <lane> <core>,<to>,<attempts> <index>             this task of a range does
-- What a lane sends: grant `<lane> <place> <granted_ms> <life_ms> <to> <E>`, E of the tasks that may start, and for how long, with the cost
-- that was taken, to where the range ends;
-- fail `<lane> <code> <E>`. The kind in a granted E is followed by `!` where the limiter's cooldown is "limiter".
--
-- Keys, after `lane:<core>`:
--   (none)    hash: the limiter's record, its machine's numbers and the lane's state; see LANE_FIELDS
--   :q        zset: ranges that wait, by the place of their first task. Each task has a place: that of its range + its index
--   :e        hash: range -> `<arrived> <place> <E>`; arrived in us of active time, place that of a task 0; then ` <index>,…` of those that have left it
--   :first    zset: ranges without a valid_until of their own by the time (ms) when they first became due
--   :until    zset: the others by theirs
--   :n        hash: batch -> its tasks that wait
--   :dropped  hash: batch -> `<place> <tasks>`: its ranges before that place are over; so many tasks of them are still in :q
--   :use      hash: counts; see lib/tally
--   :log      list, :run zset: of machines; see lib/limiter
-- `lanes` is a zset of lanes by the time (ms, of this shard) at which the next thing is to be done for them; those for which there is none
-- are not in it. `limited:<kind>` in the partition's `m` counts the tasks that wait in lanes of a kind, for its operator.
-- Clocks of a lane are in us. `real` is this shard's; `now` is it, too, but stands still where that goes back by less than a second; `v` never goes back: a larger
-- step (failover, NTP) adds to `skew`. `active` is v without the time in which the lane was closed.
local LANE_STEP_US, LANE_SEQ_FIRST = 1000000, 100000000 -- more than any index of a task, so that places are not negative
local LANE_FIELDS = { 'account', 'name', 'kind', 'form', 'max', 'rate', 'interval_s', 'lock_s', 'queue_s', 'valid_s', 'cooldown', 'deleted',
  't', 'skew', 'idle', 'pause', 'cool', 'seq', 'waiting', 'seen', 'fresh', 'since', 'n', 'at', 'rem', 'lag', 'way',
  'last', 'hold', 'opens', 'lost' }
local LANE_KEYS = { '', ':q', ':e', ':first', ':until', ':n', ':dropped', ':use', ':log', ':run' }
local LANE_TEXTS = { account = true, name = true, kind = true, form = true, cooldown = true }
local LANE_STATE = { 't', 'skew', 'idle', 'pause', 'cool', 'seq', 'waiting', 'seen', 'fresh', 'since', 'n', 'at', 'rem', 'lag', 'way',
  'last', 'hold', 'opens', 'lost' }
-- Within so long of a start its lane has heard of it, as a rule, and what it had granted ahead by then is past.
local LANE_HEARD_MS = 50
local lanes_loaded, lanes_by_core = {}, {}
local lane_bell = false

-- How each form of limiter counts; lanes without a limit have none. A machine reads and plans on `lane`:
--   settle(lane)                    brings its state to the lane's time and sets lane.free, the units that can be taken
--   next(lane, cost)                when (v) so many units can be taken, where nothing else happens; nil where no time is known
--   take(lane, units, range, from, to, granted_ms)   tasks from..to of a range start
--   give(lane, units, granted_ms, core, from, to)    units that were taken then are not used
--   late(lane, units, granted_ms, started_ms)   not of slots: units that were taken then are used only since they started
--   charge(lane, difference)        optional: a task has cost more or less
--   reset(lane)                     forgets used units
--   adapt(lane, before)             the numbers have changed; `before` are the old ones
--   ahead                           optional: whether starts may be granted before their time
--   room(lane)                      optional: the units that may start now, where those are fewer than lane.free
--   runs_dry(lane)                  optional: when (v) units that could be taken begin to be lost
--   spare(lane, late_ms)            optional, of units that drip in: whether it has more left than starts that are late by so much can make of it
--   life(lane, granted_ms)          optional: for how long (ms) what was granted then may start, where that ends with an interval
--   done(lane, core, from, to)      optional: tasks have ended, and with them what they held
--   write(lane)                     optional: writes what it has besides the fields `n`, `at`, `rem`: keys `:log` (window, level), `:run` (slots)
local machines = {}
-- @include lib/limiter/*
-- @include lib/tally

local function lane_text(number) return string.format('%.0f', number) end

local function lane_limited(lane) return lane.account and not lane.deleted end

-- The lane in memory, at `now_us` of this shard. One whose record is missing limits nothing.
local function lane_load(core, now_us)
  local lane = lanes_by_core[core]
  if lane then return lane end
  lane = { core = core, key = root .. 'lane:' .. core, entries = {}, changed = {}, batches = {}, tallies = {}, idle = 0,
    gone_first = {}, gone_until = {} }
  local v = call('HMGET', lane.key, unpack(LANE_FIELDS, 1, #LANE_FIELDS))
  for i, field in ipairs(LANE_FIELDS) do
    if v[i] then lane[field] = LANE_TEXTS[field] and v[i] or tonumber(v[i]) end
  end
  lane.skew, lane.seq, lane.waiting = lane.skew or 0, lane.seq or LANE_SEQ_FIRST, math.max(0, lane.waiting or 0)
  lane.seen, lane.fresh, lane.idle = lane.seen or lane.seq, lane.fresh or 0, lane.idle or 0
  lane.v = now_us + lane.skew
  if lane.t and lane.v < lane.t then
    if lane.t - lane.v > LANE_STEP_US then
      -- Of times before the step it is not known any more when they were.
      lane.since = math.max(lane.since or 0, lane.t - lane.skew + 1000)
      lane.last, lane.lag, lane.hold, lane.opens = 0, 0, 0, 0
      -- Whole ms, so that a time in ms says the same before and after.
      lane.skew = lane.skew + math.ceil((lane.t - lane.v) / 1000) * 1000
    end
    lane.v = math.max(lane.t, now_us + lane.skew)
  end
  lane.now, lane.real = lane.v - lane.skew, now_us
  local closed_until = math.max(lane.pause or 0, lane.cool or 0)
  if lane.t and closed_until > lane.t then lane.idle = lane.idle + math.min(lane.v, closed_until) - lane.t end
  lane.active = lane.v - lane.idle
  lane.t = lane.v
  lane.queued_max, lane.waiting_before = lane.waiting, lane.waiting
  lanes_by_core[core] = lane
  lanes_loaded[#lanes_loaded + 1] = lane
  return lane
end

-- When (v) a closed lane opens again; nil where it is open.
local function lane_closed_until(lane)
  local at = math.max(lane.pause or 0, lane.cool or 0)
  return at > lane.v and at or nil
end

-- While those who start what it granted (the newest for `last`, ms) cannot keep up it grants nothing, until `opens` (ms); see lib/receive/late.
local function lane_is_held(lane) return lane.real / 1000 < (lane.opens or 0) end

local function lane_settle(lane)
  local machine = lane_limited(lane) and machines[lane.form]
  lane.machine = machine
  if not lane.settled and machine then machine.settle(lane) end
  if not machine then lane.free = math.huge end
  lane.settled = true
  return lane
end

-- Units that may start at the time it was settled at.
local function lane_room(lane) return lane.machine and lane.machine.room and lane.machine.room(lane) or lane.free end

local function lane_read(text)
  local flow, core, from, to, attempts, recoveries, timeout_s, due_ms, kind, cost, first_ms, valid_ms =
    string.match(text, '^([^|]+)|(%w+),(%d+),(%d+),(%d+),(%d+),(%d+),(%d+);%w+,(%a)!?,(%d+),(%d+),(%d+)')
  return { flow = flow, core = core, from = tonumber(from), to = tonumber(to), attempts = attempts, recoveries = recoveries,
    timeout_s = timeout_s, due_ms = due_ms, kind = kind, cost = tonumber(cost), first_ms = tonumber(first_ms),
    valid_ms = tonumber(valid_ms) }
end

-- E of tasks from..to of a range; `cost` as text.
local function lane_entry_text(lane, range, from, to, kind, cost)
  return string.format('%s|%s,%.0f,%.0f,%s,%s,%s,%s;%s,%s,%s,%.0f,%.0f', range.flow, range.core, from, to, range.attempts,
    range.recoveries, range.timeout_s, range.due_ms, lane.core, kind, cost, range.first_ms, range.valid_ms)
end

-- What a range is named by while it waits: it stays the same while the range shrinks from its front.
local function lane_key(range) return range.core .. ',' .. lane_text(range.to) .. ',' .. range.attempts end

-- A range as it is stored: with `key`, `arrived` and `place`.
local function lane_entry_read(key, text)
  local arrived, place, entry, left = string.match(text, '^(%d+) (%d+) (%S+)(.*)$')
  local range = lane_read(entry)
  range.key, range.arrived, range.place = key, tonumber(arrived), tonumber(place)
  if left ~= '' then
    range.left = {}
    for index in string.gmatch(left, '%d+') do range.left[#range.left + 1] = tonumber(index) end
  end
  return range
end

-- How many tasks of a range wait. Those that have left it, in `left`, are behind its first and ascend.
local function lane_tasks(range) return range.to - range.from + 1 - (range.left and #range.left or 0) end

-- How many of them, from the first on, stand side by side.
local function lane_run(range) return (range.left and range.left[1] or range.to + 1) - range.from end

-- The range of this name as it is now, or false.
local function lane_entry(lane, key)
  local range = lane.entries[key]
  if range ~= nil then return range end
  local text = call('HGET', lane.key .. ':e', key)
  return text and lane_entry_read(key, text)
end

local function lane_put(lane, key, range)
  if lane.entries[key] == nil then lane.changed[#lane.changed + 1] = key end
  lane.entries[key] = range
end

-- Where the ranges of a batch that was dropped end, and how many of its tasks are counted.
local function lane_batch(lane, core)
  local batch = lane.batches[core]
  if batch then return batch end
  local place, tasks = string.match(call('HGET', lane.key .. ':dropped', core) or '', '^(%d+) (%d+)$')
  batch = { waiting = tonumber(call('HGET', lane.key .. ':n', core) or '0'), over = tonumber(place or '0'), over_tasks = tonumber(tasks or '0') }
  lane.batches[core] = batch
  return batch
end

local function lane_is_dropped(batch, range) return range.place + range.from < batch.over end

-- Counts `tasks` more, or fewer, of a range that waits; `fresh` is how many of them no look has met yet.
local function lane_count(lane, range, tasks)
  local batch = lane_batch(lane, range.core)
  if lane_is_dropped(batch, range) then
    batch.over_tasks = batch.over_tasks + tasks
    return
  end
  -- A version before this one counts those too that have left a range.
  batch.waiting = math.max(0, batch.waiting + tasks)
  lane.waiting = math.max(0, lane.waiting + tasks)
  if lane.waiting > lane.queued_max then lane.queued_max = lane.waiting end
  if range.place + range.from >= lane.seen then lane.fresh = lane.fresh + tasks end
end

-- The lane is looked at then (in `now`'s time), where it is not looked at before.
local function lane_wake(lane, at_us)
  if not lane.wake or at_us < lane.wake then lane.wake = at_us end
end

-- When (in `now`'s time) a range fails by the age of its tasks.
local function lane_invalid_at(lane, range)
  if range.valid_ms > 0 then return range.valid_ms * 1000 end
  return lane_limited(lane) and lane.valid_s and range.first_ms * 1000 + lane.valid_s * 1000000 or math.huge
end

local function lane_add(lane, range)
  if lane.waiting == 0 then lane_wake(lane, lane.now) end
  local invalid_at = lane_invalid_at(lane, range)
  if invalid_at < math.huge then lane_wake(lane, invalid_at) end
  lane_put(lane, range.key, range)
  lane_count(lane, range, lane_tasks(range))
end

-- To the end of the line. What is there already stays where it is.
local function lane_queue(lane, range)
  range.key = lane_key(range)
  if lane_entry(lane, range.key) then return end
  range.place = lane.seq - range.from
  local tasks = range.to - range.from + 1
  lane.seq = lane.seq + tasks
  range.arrived = lane.active
  -- Whoever comes behind those that a look has left has to wait, and is counted now: the next look may be far.
  if lane.waiting > 0 and lane.fresh == 0 then
    lane.seen = lane.seq
    tally(lane, lane.now, 0, tasks, 0)
  end
  lane_add(lane, range)
end

-- To its old place. How long it waited before is not known any more; as long as who stands behind it, so that times of arrival
-- ascend with places and only the first in the line can be the first to wait too long.
local function lane_return(lane, range, place)
  range.key, range.place, range.arrived = lane_key(range), place, lane.active
  if lane_is_dropped(lane_batch(lane, range.core), range) then return end
  local held = lane_entry(lane, range.key)
  if held then
    -- Given twice (its source has failed over): the two are one, from the first task of either.
    if held.from <= range.from then return end
    lane_count(lane, held, -lane_tasks(held))
    range.left = held.left
    range.place, range.arrived = math.min(place, held.place), math.min(range.arrived, held.arrived)
    return lane_add(lane, range)
  end
  local behind = call('ZRANGEBYSCORE', lane.key .. ':q', lane_text(place + range.from), '+inf', 'LIMIT', 0, 1)[1]
  local text = behind and call('HGET', lane.key .. ':e', behind)
  if text then range.arrived = math.min(range.arrived, lane_entry_read(behind, text).arrived) end
  lane_add(lane, range)
  -- It stands before the one that the lane has waited for.
  lane_wake(lane, lane.now)
end

-- Takes what stands before task `from` of a range out of the line, and who has left next to it; true where nothing of it is left.
local function lane_take(lane, range, from)
  local passed, left = 0, nil
  for _, index in ipairs(range.left or {}) do
    if index > from then
      left = left or {}
      left[#left + 1] = index
    else
      passed = passed + 1
      if index == from then from = from + 1 end
    end
  end
  lane_count(lane, range, range.from + passed - from)
  if from > range.to then
    lane_put(lane, range.key, false)
    local index = range.valid_ms > 0 and lane.gone_until or lane.gone_first
    index[#index + 1] = range.key
    return true
  end
  range.from, range.left = from, left
  lane_put(lane, range.key, range)
  return false
end

-- All of a batch that waits is over. Its ranges go when they come to the front, and count for nothing until then.
local function lane_drop(lane, core)
  local batch = lane_batch(lane, core)
  if batch.waiting == 0 then return end
  batch.over, batch.over_tasks = lane.seq, batch.over_tasks + batch.waiting
  lane.waiting = lane.waiting - batch.waiting
  batch.waiting = 0
  lane_wake(lane, lane.now)
end

-- More can be free than was when it was last looked at.
local function lane_eased(lane)
  if lane.waiting > 0 and lane.free > 0 then lane_wake(lane, lane.now) end
end

-- Units that were taken and not used; the tasks do not count as granted any more. Of units that were taken before a reset, a
-- PATCH or a step of the clock (`since`) it is not known how they are counted; slots are known by their task.
local function lane_give(lane, units, tasks, granted_ms, core, from, to)
  if lane.machine and (lane.machine.done or granted_ms * 1000 >= (lane.since or 0)) then lane.machine.give(lane, units, granted_ms, core, from, to) end
  tally(lane, granted_ms * 1000, -tasks, 0, 0)
  lane_eased(lane)
end

local function lane_plan()
  for _, lane in ipairs(lanes_loaded) do tally_plan(lane) end
end

local function lane_sliced(command, key, list)
  for i = 1, #list, 1000 do call(command, key, unpack(list, i, math.min(i + 999, #list))) end
end

local function lane_write_entries(lane)
  local gone, places, texts, first, valid = {}, {}, {}, {}, {}
  local function add(list, a, b)
    list[#list + 1] = a
    list[#list + 1] = b
  end
  for _, key in ipairs(lane.changed) do
    local range = lane.entries[key]
    if range then
      add(places, lane_text(range.place + range.from), key)
      add(texts, key, lane_text(range.arrived) .. ' ' .. lane_text(range.place) .. ' '
        .. lane_entry_text(lane, range, range.from, range.to, range.kind, lane_text(range.cost))
        .. (range.left and ' ' .. table.concat(range.left, ',') or ''))
      if range.valid_ms > 0 then add(valid, range.valid_ms, key) else add(first, range.first_ms, key) end
    else
      gone[#gone + 1] = key
    end
  end
  lane_sliced('ZREM', lane.key .. ':q', gone)
  lane_sliced('ZREM', lane.key .. ':first', lane.gone_first)
  lane_sliced('ZREM', lane.key .. ':until', lane.gone_until)
  lane_sliced('HDEL', lane.key .. ':e', gone)
  lane_sliced('ZADD', lane.key .. ':q', places)
  lane_sliced('HSET', lane.key .. ':e', texts)
  lane_sliced('ZADD', lane.key .. ':first', first)
  lane_sliced('ZADD', lane.key .. ':until', valid)
  for core, batch in pairs(lane.batches) do
    if batch.waiting > 0 then call('HSET', lane.key .. ':n', core, batch.waiting) else call('HDEL', lane.key .. ':n', core) end
    if batch.over_tasks > 0 then
      call('HSET', lane.key .. ':dropped', core, lane_text(batch.over) .. ' ' .. lane_text(batch.over_tasks))
    else
      call('HDEL', lane.key .. ':dropped', core)
    end
  end
end

local function lane_score(at_us) return string.format('%.3f', at_us / 1000) end

-- Everything of a lane; its queue must be empty.
local function lane_forget(lane)
  for _, name in ipairs(LANE_KEYS) do call('UNLINK', lane.key .. name) end
  call('ZREM', root .. 'lanes', lane.core)
end

-- Data of before this was counted, and of a failover, must not make it wrong for ever: it is right again once nothing waits.
local function lane_write_waiting(lane)
  local more = lane.waiting - lane.waiting_before
  if more == 0 then return end
  local field = 'limited:' .. (lane.kind or '')
  if call('HINCRBY', meta, field, more) < 0 then call('HSET', meta, field, 0) end
end

local function lane_write()
  for _, lane in ipairs(lanes_loaded) do
    lane_write_entries(lane)
    -- Slots that were reclaimed by a message's settling are told by the next look.
    if lane.told then lane.lost = lane.lost and 0
    elseif (lane.reclaimed or 0) > 0 then lane.lost = (lane.lost or 0) + lane.reclaimed end
    local fields = {}
    for _, field in ipairs(LANE_STATE) do
      if lane[field] then
        fields[#fields + 1] = field
        fields[#fields + 1] = lane_text(lane[field])
      end
    end
    call('HSET', lane.key, unpack(fields, 1, #fields))
    lane_write_waiting(lane)
    if lane.machine and lane.machine.write then lane.machine.write(lane) end
    tally_write(lane)
    if lane.next == false then
      call('ZREM', root .. 'lanes', lane.core)
    elseif lane.next then
      call('ZADD', root .. 'lanes', lane_score(lane.next), lane.core)
    elseif lane.wake then
      local at_once = lane.wake <= lane.now
      call('ZADD', root .. 'lanes', 'LT', lane_score(at_once and lane.real or lane.wake), lane.core)
      lane_bell = lane_bell or at_once
    end
    -- What is left of a lane whose record is gone, or never came.
    if not lane.account and call('EXISTS', lane.key .. ':q') == 0 then lane_forget(lane) end
  end
  if lane_bell then call('SPUBLISH', root .. 'bell', 'l') end
end
