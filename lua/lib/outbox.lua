-- @include lib/root
-- Messages to other partitions, written by the script whose change they tell of; src/store/outbox.ts carries them over.
--   outbox:<destination>   zset of `<sequence> <kind> <body>` by sequence
--   outbox                 zset of destinations that have messages waiting, by the first one's sequence
--   m                      its field `seq` is the last sequence given
-- A sequence is a time in us, or the last one + 1 where that is more: a server that was promoted without the last
-- messages gives higher numbers than those that it does not know of.
--
-- A reference is a range of tasks that a lane (a limiter's queue, in another partition) holds for this one, from its
-- `queue` or `back` to the `grant` or `fail` of the last of it. Meanwhile this partition remembers it:
--   away         hash: `<lane> <core>,<to>,<attempts>` -> `<sequence of the last message about it> <flow>|<entry>`
--   away:since   zset: the same by the time (ms) since which the lane has not been asked
-- The name stays the same while the lane grants the range from its front, and the entry loses what was granted. A lane is named by a core, whose first two
-- digits are its partition.
local DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
local outbox_last = nil
local outbox_plans, outbox_plans_made = {}, {}
local away_plans, away_plans_made = {}, {}

local function whole(number) return string.format('%.0f', number) end

local function digit(text, at) return string.find(DIGITS, string.sub(text, at, at), 1, true) - 1 end

local function outbox_key(destination) return root .. 'outbox:' .. destination end

-- The partition, as text, of what a core (a batch's or a lane's) names.
local function partition_of(core) return whole(digit(core, 1) * 62 + digit(core, 2)) end

local function outbox_next(now)
  outbox_last = math.max((outbox_last or tonumber(call('HGET', meta, 'seq') or '0')) + 1, math.floor(now) * 1000)
  return whole(outbox_last)
end

-- A message that is lost where its destination loses it. `destination` is a partition, as text. Returns its sequence.
local function outbox_send(now, destination, kind, body)
  local seq = outbox_next(now)
  local plan = outbox_plans[destination]
  if not plan then
    plan = { destination = destination, items = {} }
    outbox_plans[destination] = plan
    outbox_plans_made[#outbox_plans_made + 1] = plan
  end
  plan.items[#plan.items + 1] = seq
  plan.items[#plan.items + 1] = seq .. ' ' .. kind .. ' ' .. body
  return seq
end

-- The name of a reference; `text` is or ends in `<flow>|<entry>`.
local function away_field(lane, text)
  local core, to, attempts = string.match(text, '|(%w+),%d+,(%d+),(%d+),')
  return lane .. ' ' .. core .. ',' .. to .. ',' .. attempts
end

local function away_set(field, value, now)
  local plan = away_plans[field]
  if not plan then
    plan = { field = field }
    away_plans[field] = plan
    away_plans_made[#away_plans_made + 1] = plan
  end
  plan.value = value
  plan.since = now
end

-- Gives a range to a lane, at the end of its line. `text` is `<flow>|<entry>`.
local function outbox_hand(now, lane, text)
  local seq = outbox_send(now, partition_of(lane), 'queue', lane .. ' ' .. text)
  away_set(away_field(lane, text), seq .. ' ' .. text, now)
end

-- Gives back what was granted and did not start: to its old place, its units with it.
local function outbox_back(now, lane, place, granted_ms, text)
  local seq = outbox_send(now, partition_of(lane), 'back', lane .. ' ' .. place .. ' ' .. granted_ms .. ' ' .. text)
  away_set(away_field(lane, text), seq .. ' ' .. text, now)
end

-- What it is remembered by, as this script leaves it; nil where it is not.
local function away_get(field)
  local plan = away_plans[field]
  if plan then return plan.value or nil end
  return call('HGET', root .. 'away', field) or nil
end

-- The lane holds it no longer.
local function away_forget(field) away_set(field, false, nil) end

-- Returns 1 where messages were written, else 0.
local function outbox_write()
  local gone, set, since = {}, {}, {}
  for _, plan in ipairs(away_plans_made) do
    if plan.value then
      set[#set + 1] = plan.field
      set[#set + 1] = plan.value
      since[#since + 1] = plan.since
      since[#since + 1] = plan.field
    else
      gone[#gone + 1] = plan.field
    end
  end
  for i = 1, #set, 1000 do
    call('HSET', root .. 'away', unpack(set, i, math.min(i + 999, #set)))
    call('ZADD', root .. 'away:since', unpack(since, i, math.min(i + 999, #since)))
  end
  for i = 1, #gone, 1000 do
    call('HDEL', root .. 'away', unpack(gone, i, math.min(i + 999, #gone)))
    call('ZREM', root .. 'away:since', unpack(gone, i, math.min(i + 999, #gone)))
  end
  if #outbox_plans_made == 0 then return 0 end
  for _, plan in ipairs(outbox_plans_made) do
    local items = plan.items
    for i = 1, #items, 1000 do call('ZADD', outbox_key(plan.destination), unpack(items, i, math.min(i + 999, #items))) end
    call('ZADD', root .. 'outbox', 'NX', items[1], plan.destination)
  end
  call('HSET', meta, 'seq', whole(outbox_last))
  return 1
end

-- All that waits for the destinations that this script wrote to, as outbox/slice gives it, for a caller that carries it over at
-- once; without those that have more waiting than is worth the copy, and 1 where there are such. delivery/relayer.ts acknowledges from a quarter of that
-- on, so that these are few.
local SLICE_MAX = 100
local function outbox_slices()
  local slices, left = {}, 0
  for _, plan in ipairs(outbox_plans_made) do
    local messages = call('ZRANGE', outbox_key(plan.destination), 0, SLICE_MAX)
    if #messages <= SLICE_MAX then slices[#slices + 1] = { tonumber(plan.destination), messages } else left = 1 end
  end
  return slices, left
end

-- For scripts whose caller does not carry messages over itself: whoever works on this partition is asked to.
local function outbox_bell()
  if #outbox_plans_made > 0 then call('SPUBLISH', root .. 'bell', 'o') end
end
