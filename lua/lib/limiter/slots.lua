-- Slots for tasks that run. `lane:<core>:run` is a zset of `<batch core>,<index>` by the time (v, ms) until which the slot is held for
-- its task at most; its fraction tells the grant (granted_ms % 1024, in 1/1024), so that what a late grant gives back is not
-- the slot of a task that runs.
local SLOTS_DUE_MAX, SLOTS_GRACE_MS = 500, 60000

local function slots_key(lane) return lane.key .. ':run' end

local function slots_mark(granted_ms) return granted_ms % 1024 / 1024 end

-- Members for tasks from..to, and until when each is held: a number, or false.
local function slots_of(lane, core, from, to)
  local members, ends = {}, {}
  for i = from, to do members[#members + 1] = core .. ',' .. string.format('%.0f', i) end
  for i = 1, #members, 1000 do
    for _, score in ipairs(call('ZMSCORE', slots_key(lane), unpack(members, i, math.min(i + 999, #members)))) do
      ends[#ends + 1] = score and tonumber(score)
    end
  end
  for i, member in ipairs(members) do
    if lane.slots[member] ~= nil then ends[i] = lane.slots[member] end
  end
  return members, ends
end

local function slots_free(lane, core, from, to, mark)
  local members, ends = slots_of(lane, core, from, to)
  for i, member in ipairs(members) do
    if ends[i] and (not mark or ends[i] % 1 == mark) then
      lane.slots[member] = false
      lane.held = lane.held - 1
    end
  end
  lane.free = math.max(0, lane.max - lane.held)
end

machines.slots = {
  settle = function(lane)
    lane.slots, lane.reclaimed = {}, 0
    lane.held = call('ZCARD', slots_key(lane))
    for _, member in ipairs(call('ZRANGEBYSCORE', slots_key(lane), '-inf', string.format('%.17g', lane.v / 1000), 'LIMIT', 0, SLOTS_DUE_MAX)) do
      lane.slots[member] = false
      lane.reclaimed = lane.reclaimed + 1
    end
    lane.held = lane.held - lane.reclaimed
    lane.free = math.max(0, lane.max - lane.held)
  end,
  -- Where nobody frees one: the end of the first that is held. Of those freed in this call it may be one too; then it is looked at too early.
  next = function(lane)
    local first = tonumber(call('ZRANGE', slots_key(lane), lane.reclaimed, lane.reclaimed, 'WITHSCORES')[2]) or math.huge
    for _, score in pairs(lane.slots) do
      if score and score < first then first = score end
    end
    return first < math.huge and math.floor(first * 1000) + 1 or nil
  end,
  -- A task that has a slot (its source has failed over and does not know) keeps it.
  take = function(lane, units, range, from, to, granted_ms)
    local lease_ms = math.max((lane.lock_s or 0) * 1000, range.timeout_s * 1000 + SLOTS_GRACE_MS)
    local members, ends = slots_of(lane, range.core, from, to)
    for i, member in ipairs(members) do
      if not ends[i] then
        lane.slots[member] = math.ceil(lane.v / 1000) + lease_ms + slots_mark(granted_ms)
        lane.held = lane.held + 1
      end
    end
    lane.free = math.max(0, lane.max - lane.held)
  end,
  give = function(lane, _, granted_ms, core, from, to) slots_free(lane, core, from, to, slots_mark(granted_ms)) end,
  done = function(lane, core, from, to) slots_free(lane, core, from, to, nil) end,
  reset = function() end,
  adapt = function(lane) lane.free = math.max(0, lane.max - lane.held) end,
  write = function(lane)
    local gone, held = {}, {}
    for member, score in pairs(lane.slots) do
      if score then
        held[#held + 1] = string.format('%.17g', score)
        held[#held + 1] = member
      else
        gone[#gone + 1] = member
      end
    end
    for i = 1, #gone, 1000 do call('ZREM', slots_key(lane), unpack(gone, i, math.min(i + 999, #gone))) end
    for i = 1, #held, 1000 do call('ZADD', slots_key(lane), unpack(held, i, math.min(i + 999, #held))) end
  end,
}
