-- @include lib/batch
-- @include lib/delayed
-- @include lib/outbox
-- Work that takes from a rate limiter. Its entries, and its names in flight, end in
--   `;<lane>,<kind>,<cost>,<first_ms>,<valid_ms>`                        waiting: delayed, or at the lane
--   `;<lane>,<kind>,<cost>,<first_ms>,<valid_ms>,<place>,<granted_ms>,<life_ms>`   granted, or in flight
-- kind is the letter of the limiter's type, with `!` where it is to close for a target's Retry-After; cost the units that a task takes, with
-- a 0 before it where what was granted need not wait for others that start late (machines' `spare` in lib/lane); first_ms when the
-- task first became due, over all its attempts; valid_ms its own valid_until, 0 for none; place its rank in the lane's line; life_ms how long the grant is good. Limited work never lies in a flow: what is due is handed to its lane, and comes back
-- as a grant, and waits in `granted`, a zset of `<flow>|<entry>` by the end of its life.
--   b:<core>:lanes   hash: name of a limiter -> `<lane>,<kind>,<first index>` of each that had this name, the last one last
local LANES_MAX = 1000

-- No grant is so far ahead of its time: a lane's clock stands still where it is set back by less than a second, and what is granted ahead
-- is a fraction of that. One that seems to be was granted before the clock was set back, and nobody counts it when its time comes again.
local GRANT_AHEAD_MS_MAX = 1500

local function limit_read(limit)
  local lane, kind, cost, first_ms, valid_ms, rest = string.match(limit, '^;(%w+),(%a!?),0?(%d+),(%d+),(%d+)(.*)$')
  local place, granted_ms, life_ms = string.match(rest, '^,(%d+),(%d+),(%d+)$')
  return { lane = lane, kind = string.sub(kind, 1, 1), cost = tonumber(cost), place = place, granted_ms = granted_ms,
    life_ms = tonumber(life_ms),
    waiting = string.format(';%s,%s,%s,%s,%s', lane, string.sub(kind, 1, 1), cost, first_ms, valid_ms) }
end

-- State bytes of a range of waiting work, of which none waits where its batch, or its round, is over.
local function limited_states(b, entry, to)
  if not b or not batch_live(b) or round_entry_stale(b, entry) then return '' end
  return call('GETRANGE', b.key .. ':s', entry.from, to or entry.to)
end

-- Hands a range that is due to its lane, in pieces that lie in one segment each.
local function limited_hand(b, now, flow, entry)
  local from = entry.from
  local limit = limit_read(entry.limit)
  while from <= entry.to do
    local _, last = segment_bounds(b, from)
    last = math.min(last, entry.to)
    -- Those that were cancelled meanwhile do not come to the line; most batches have none.
    local states = (b.x or 0) > 0 and call('GETRANGE', b.key .. ':s', from, last) or ''
    states = states .. string.rep('q', last - from + 1 - #states) -- those that come with this script
    for first, after in string.gmatch(states, '()[^x]+()') do
      outbox_hand(now, limit.lane, flow .. '|' .. entry_of(entry.core, from + first - 1, from + after - 2, entry.attempts, entry.recoveries,
        entry.timeout_s, entry.due_ms, limit.waiting))
    end
    from = last + 1
  end
end

-- As enqueue; `entry` is what entry_read gives.
local function limited_enqueue(b, now, due_ms, flow, entry)
  if entry.limit ~= '' and due_ms <= now then return limited_hand(b, now, flow, entry) end
  enqueue(now, due_ms, flow, entry_of(entry.core, entry.from, entry.to, entry.attempts, entry.recoveries, entry.timeout_s, entry.due_ms, entry.limit))
end

-- New tasks from..to, ready since `ready_ms` at the earliest; `limit` is `<lane>,<kind>,<cost>,<valid_ms>` as their run has it, '' for none.
local function run_enqueue(b, now, flow, from, to, timeout_s, due_ms, limit, ready_ms)
  local at_ms = math.max(ready_ms or now, due_ms)
  local attempts = attempts_first(b)
  if limit == '' then return enqueue(now, due_ms, flow, entry_of(b.core, from, to, attempts, 0, timeout_s, at_ms)) end
  local lane, kind, cost, valid_ms = string.match(limit, '^(%w+),(%a),(%d+),(%d+)$')
  limited_enqueue(b, now, due_ms, flow, { core = b.core, from = from, to = to, attempts = attempts, recoveries = 0, timeout_s = timeout_s,
    due_ms = at_ms, limit = string.format(';%s,%s,%s,%.0f,%s', lane, kind, cost, at_ms, valid_ms) })
end

-- What was granted and will not start: the units go back. Of kind `c` these are slots.
local function limited_unused(now, limit, core, from, to)
  local tasks = to - from + 1
  outbox_send(now, partition_of(limit.lane), 'unused',
    string.format('%s %s %.0f %.0f %s %.0f %.0f', limit.lane, limit.granted_ms, tasks, tasks * limit.cost, core, from, to))
end

-- Slots of kind `c` whose attempts ended.
local function limited_free(now, limit, core, from, to)
  if limit.kind == 'c' then
    outbox_send(now, partition_of(limit.lane), 'free', string.format('%s %s %.0f %.0f', limit.lane, core, from, to))
  end
end

-- What was granted and waits again: to its old place, its units with it.
local function limited_back(now, flow, entry, from, to, limit)
  outbox_back(now, limit.lane, limit.place, limit.granted_ms,
    flow .. '|' .. entry_of(entry.core, from, to, entry.attempts, entry.recoveries, entry.timeout_s, entry.due_ms, limit.waiting))
end

-- A granted range whose time is over: what waits of it goes back to its place, what does not gives its units back.
local function limited_return(now, flow, entry)
  local limit = limit_read(entry.limit)
  local states = limited_states(batch_load(entry.core), entry)
  local at = entry.from
  for first, after in string.gmatch(states, '()[qr]+()') do
    local from, to = entry.from + first - 1, entry.from + after - 2
    if from > at then limited_unused(now, limit, entry.core, at, from - 1) end
    limited_back(now, flow, entry, from, to, limit)
    at = to + 1
  end
  if at <= entry.to then limited_unused(now, limit, entry.core, at, entry.to) end
end

-- Lane and kind that a limiter's name meant when task `index` was made; nil where there is none.
local function lane_of_name(b, name, index)
  local lane, kind
  for core, letter, first in string.gmatch(call('HGET', b.key .. ':lanes', name) or '', '(%w+),(%a),(%d+)') do
    if tonumber(first) <= index then lane, kind = core, letter end
  end
  return lane, kind
end

-- Where what a lane says of a range that is away begins (`from`) behind what `away` says of it (`held`, of `flow`, by message `seq`), this side has failed
-- over and lost what came before: what still waits of that is remembered as if the lane held it, and found by the sweep.
local function limited_lost(lane, seq, flow, held, from, now)
  if not held or held.from >= from then return end
  local first = string.find(limited_states(batch_load(held.core), held, from - 1), '[qr]')
  if not first then return end
  local text = flow .. '|' .. entry_of(held.core, held.from + first - 1, from - 1, held.attempts, held.recoveries, held.timeout_s,
    held.due_ms, held.limit)
  away_set(away_field(lane, text), seq .. ' ' .. text, now)
end

-- A task was cancelled: where its lane holds it, it leaves, so that nobody behind it waits for it. Of its range `away` knows the end: that
-- task or one behind it in its segment. One that never started (byte `q`) waits for its first attempt; of others that one was given back, a second
-- attempt may have neighbours, and a later one waits alone.
-- What `away` says stays as it is, as the lane's next grants of the range will find it: they pass over the task.
local LEAVE_NAMES_MAX = 250
local function limited_leave(b, now, index, byte, limiter)
  local lane = lane_of_name(b, limiter, index)
  if not lane or call('EXISTS', root .. 'away') == 0 then return end
  local prefix, first = lane .. ' ' .. b.core .. ',', attempts_first(b)
  local suffixes = { ',' .. whole(first) }
  if byte == 'r' then suffixes[2] = ',' .. whole(first + 1) end
  local _, last = segment_bounds(b, index)
  local names = {}
  local function held()
    local entries = #names > 0 and call('HMGET', root .. 'away', unpack(names, 1, #names)) or {}
    for i = 1, #entries do
      local text = string.match(entries[i] or '', '^%d+ [^|]+|(.*)$')
      if text and entry_read(text).from <= index then
        outbox_send(now, partition_of(lane), 'leave', names[i] .. ' ' .. whole(index))
        return true
      end
    end
    names = {}
    return false
  end
  local function add(to)
    to = prefix .. whole(to)
    for _, suffix in ipairs(suffixes) do names[#names + 1] = to .. suffix end
  end
  -- The likely ones before all others.
  add(index)
  add(last)
  if byte == 'r' then
    for attempts = 2, ROUND_ATTEMPTS - 1 do names[#names + 1] = prefix .. whole(index) .. ',' .. whole(first + attempts) end
  end
  if held() then return end
  for to = index + 1, last - 1 do
    add(to)
    if #names >= LEAVE_NAMES_MAX and held() then return end
  end
  held()
end

-- Lanes need not keep what waits of a batch that is over.
local function limited_drop(b, now)
  local told = {}
  for i, lanes in ipairs(call('HVALS', b.key .. ':lanes')) do
    if i > LANES_MAX then break end -- what is left turns out to be gone when it is granted
    for lane in string.gmatch(lanes, '(%w+),%a,%d+') do
      if not told[lane] then
        told[lane] = true
        outbox_send(now, partition_of(lane), 'drop', lane .. ' ' .. b.core)
      end
    end
  end
end

-- Reads `parts` from `at`: count, then (name, lane, kind) of each limiter that tasks from `first` on have. Returns what
-- lanes_write takes.
local function lanes_read(b, parts, at, first)
  local list = {}
  for k = 0, tonumber(parts[at]) - 1 do
    local name, lane, kind = parts[at + 1 + k * 3], parts[at + 2 + k * 3], parts[at + 3 + k * 3]
    local before = call('HGET', b.key .. ':lanes', name)
    if not before or string.match(before, '(%w+),%a,%d+$') ~= lane then
      list[#list + 1] = name
      list[#list + 1] = (before and before .. ' ' or '') .. string.format('%s,%s,%.0f', lane, kind, first)
    end
  end
  return list
end

local function lanes_write(b, list)
  for i = 1, #list, 1000 do call('HSET', b.key .. ':lanes', unpack(list, i, math.min(i + 999, #list))) end
end
