-- Slots for tasks that run. `lane:<core>:run` is a zset of `<batch core>,<index>` by the time (v, ms) until which the slot is held for
-- its task at most; its fraction tells the grant (granted_ms % 1024, in 1/1024), so that what a late grant gives back is not
-- the slot of a task that runs.
do
  local SLOTS_DUE_MAX, SLOTS_GRACE_MS = 500, 60000

  local function slots_key(lane) return lane.key .. ':run' end

  local function slots_mark(granted_ms) return granted_ms % 1024 / 1024 end

  -- Frees those that are held, and, with a mark, by the grant that it tells.
  local function slots_free(lane, core, from, to, mark)
    local members = {}
    for i = from, to do members[#members + 1] = core .. ',' .. i end
    for i = 1, #members, 1000 do
      for k, score in ipairs(call('ZMSCORE', slots_key(lane), unpack(members, i, math.min(i + 999, #members)))) do
        local member = members[i + k - 1]
        if score and not lane.freed[member] and (not mark or tonumber(score) % 1 == mark) then
          lane.freed[member] = true
          lane.slots_gone[#lane.slots_gone + 1] = member
        end
      end
    end
    lane.held = lane.held_before - #lane.slots_gone
    lane.free = math.max(0, lane.max - lane.held)
  end

  machines.slots = {
    settle = function(lane)
      local due = string.format('%.17g', lane.v / 1000)
      lane.slots_gone = call('ZRANGEBYSCORE', slots_key(lane), '-inf', due, 'LIMIT', 0, SLOTS_DUE_MAX)
      lane.slots_new, lane.new_until, lane.freed, lane.reclaimed = {}, math.huge, {}, #lane.slots_gone
      for _, member in ipairs(lane.slots_gone) do lane.freed[member] = true end
      lane.held_before = call('ZCARD', slots_key(lane))
      lane.held = lane.held_before - lane.reclaimed
      lane.free = math.max(0, lane.max - lane.held)
    end,
    -- Where nobody frees one: the end of the first that is held. Of those freed in this call it may be one too; then it is looked at too early.
    next = function(lane)
      local first = tonumber(call('ZRANGE', slots_key(lane), lane.reclaimed, lane.reclaimed, 'WITHSCORES')[2]) or math.huge
      first = math.min(first, lane.new_until)
      return first < math.huge and math.floor(first * 1000) + 1 or nil
    end,
    -- A task that has a slot (its source has failed over and does not know) keeps it as it is; this call counts it twice.
    take = function(lane, units, range, from, to, granted_ms)
      local lease_ms = math.max((lane.lock_s or 0) * 1000, range.timeout_s * 1000 + SLOTS_GRACE_MS)
      local until_ms = math.ceil(lane.v / 1000) + lease_ms + slots_mark(granted_ms)
      lane.new_until = math.min(lane.new_until, until_ms)
      local held_until = string.format('%.17g', until_ms)
      local list, prefix = lane.slots_new, range.core .. ','
      for i = from, to do
        list[#list + 1] = held_until
        list[#list + 1] = prefix .. i
      end
      lane.held = lane.held + units
      lane.free = math.max(0, lane.max - lane.held)
    end,
    give = function(lane, _, granted_ms, core, from, to) slots_free(lane, core, from, to, slots_mark(granted_ms)) end,
    done = function(lane, core, from, to) slots_free(lane, core, from, to, nil) end,
    reset = function() end,
    adapt = function(lane) lane.free = math.max(0, lane.max - lane.held) end,
    write = function(lane)
      local gone, new = lane.slots_gone, lane.slots_new
      for i = 1, #gone, 1000 do call('ZREM', slots_key(lane), unpack(gone, i, math.min(i + 999, #gone))) end
      for i = 1, #new, 1000 do call('ZADD', slots_key(lane), 'NX', unpack(new, i, math.min(i + 999, #new))) end
    end,
  }
end
