-- @include lib/root
-- Messages to other partitions, written by the script whose change they tell of; src/store/outbox.ts carries them over.
--   outbox:<destination>   zset of `<sequence> <kind> <body>` by sequence
--   outbox                 zset of destinations that have messages waiting, by the first one's sequence
--   m                      its field `seq` is the last sequence given
-- A sequence is a time in us, or the last one + 1 where that is more: a server that was promoted without the last
-- messages gives higher numbers than those that it does not know of.
--
-- A reference is work that a lane (a limiter's queue, in another partition) holds for this one, from its `queue` to its
-- `release`. What this partition wants is kept until it is known to be so for good:
--   away         hash: `<lane> <reference>` -> `q <sequence> <place>` it is to be there, `r <sequence> <place>` it is to be gone
--   away:since   zset: the same by the time (ms) since which the lane has not been asked
-- A lane is named by a core, whose first two digits are its partition. Both messages have the body
-- `<place> <lane> <reference>`; a reference is ASCII.
local DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
local outbox_last = nil
local outbox_plans, outbox_plans_made = {}, {}
local away_fields, away_since = {}, {}

local function whole(number) return string.format('%.0f', number) end

local function digit(text, at) return string.find(DIGITS, string.sub(text, at, at), 1, true) - 1 end

local function outbox_key(destination) return root .. 'outbox:' .. destination end

local function lane_partition(lane) return whole(digit(lane, 1) * 62 + digit(lane, 2)) end

local function outbox_next(now)
  outbox_last = math.max((outbox_last or tonumber(call('HGET', meta, 'seq') or '0')) + 1, now * 1000)
  return whole(outbox_last)
end

local function outbox_put(destination, seq, kind, body)
  local plan = outbox_plans[destination]
  if not plan then
    plan = { destination = destination, items = {} }
    outbox_plans[destination] = plan
    outbox_plans_made[#outbox_plans_made + 1] = plan
  end
  plan.items[#plan.items + 1] = seq
  plan.items[#plan.items + 1] = seq .. ' ' .. kind .. ' ' .. body
end

-- A message that is lost where its destination loses it. `destination` is a partition, as text.
local function outbox_send(now, destination, kind, body) outbox_put(destination, outbox_next(now), kind, body) end

local function outbox_want(now, wanted, kind, lane, ref, place)
  local seq = outbox_next(now)
  local field = lane .. ' ' .. ref
  place = place or seq
  outbox_put(lane_partition(lane), seq, kind, place .. ' ' .. field)
  away_fields[#away_fields + 1] = field
  away_fields[#away_fields + 1] = wanted .. ' ' .. seq .. ' ' .. place
  away_since[#away_since + 1] = now
  away_since[#away_since + 1] = field
end

-- Gives a reference to a lane. `place`, its rank among all that wait there, is kept when it is sent again.
local function outbox_hand(now, lane, ref, place) outbox_want(now, 'q', 'queue', lane, ref, place) end

-- Takes a reference out of a lane, whether it is known to be there or not.
local function outbox_release(now, lane, ref) outbox_want(now, 'r', 'release', lane, ref) end

local function outbox_touch()
  local list = { meta, root .. 'outbox', root .. 'away', root .. 'away:since' }
  for _, plan in ipairs(outbox_plans_made) do list[#list + 1] = outbox_key(plan.destination) end
  touch(list)
end

local function outbox_write()
  for _, plan in ipairs(outbox_plans_made) do
    local items = plan.items
    for i = 1, #items, 1000 do call('ZADD', outbox_key(plan.destination), unpack(items, i, math.min(i + 999, #items))) end
    call('ZADD', root .. 'outbox', 'NX', items[1], plan.destination)
  end
  if outbox_last and #outbox_plans_made > 0 then call('HSET', meta, 'seq', whole(outbox_last)) end
  for i = 1, #away_fields, 1000 do
    call('HSET', root .. 'away', unpack(away_fields, i, math.min(i + 999, #away_fields)))
    call('ZADD', root .. 'away:since', unpack(away_since, i, math.min(i + 999, #away_since)))
  end
end
