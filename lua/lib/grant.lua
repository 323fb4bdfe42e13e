-- @include lib/lane
-- @include lib/outbox
-- One look at a lane: what is too old fails, what the limiter allows starts, strictly first in first out: a task that does not fit is not
-- overtaken by one that would. Bounded: so many ranges and tasks, then `more`.
local GRANT_AGED_MAX, GRANT_RANGES_MAX, GRANT_KEEP_US = 200, 500, 2592000000000 -- a deleted limiter's usage stays for 30 days
-- How long a grant is good. One that starts more than 3 ms late is told to the lane (`late`), and that must arrive before the shortest interval is over.
local GRANT_MS = 500
local GRANT_PAUSE_US, GRANT_TOGETHER_US = 10000, 3000 -- between two looks at a lane that grants ahead of time; of what it grants so
local GRANT_BURST_MIN, GRANT_BURST_MS, GRANT_BURST_EVEN = 2, 500, 4 -- a ms: tasks at least; the limit's part; times what is even
-- Where more waits than fits at all, what a window of so many opens with comes over nine tenths of its interval, but one a ms at least.
local GRANT_SPREAD_FROM, GRANT_SPREAD_MIN, GRANT_SPREAD_EVEN = 100, 1, 10 / 9
-- A lane goes half as far ahead as it may; all of it, or as far as the second number of units reach, where half of it has as many as the first.
local GRANT_REACH_MIN, GRANT_REACH_MAX = 5, 64
-- Where starts are later by this on the whole than at least, a lane that may let more than so many units start in a second is held.
local GRANT_LAG_MS, GRANT_HELD_FROM = 50, 1600

local function grant_send(lane, range, kind, body)
  outbox_send(math.floor((lane.now - lane.ahead) / 1000), partition_of(range.core), kind, lane.core .. ' ' .. body)
end

-- Fails a whole range.
local function grant_fail(lane, range, code)
  local tasks = lane_tasks(range)
  grant_send(lane, range, 'fail', code .. ' ' .. lane_entry_text(lane, range, range.from, range.to, range.kind, lane_text(range.cost)))
  lane_take(lane, range, range.to + 1)
  lane.expired = lane.expired + tasks
end

-- Ranges whose tasks are too old, wherever they stand in the line.
local function grant_age(lane, index, until_ms, code)
  if until_ms < 0 then return end
  local keys = call('ZRANGEBYSCORE', lane.key .. index, '-inf', lane_text(until_ms), 'LIMIT', 0, GRANT_AGED_MAX)
  for _, key in ipairs(keys) do
    local range = lane_entry(lane, key)
    if range then
      if lane_is_dropped(lane_batch(lane, range.core), range) then
        lane_take(lane, range, range.to + 1)
      else
        grant_fail(lane, range, code)
      end
    end
  end
  if #keys == GRANT_AGED_MAX then lane.more = true end
end

-- Why a range fails now, or nil.
local function grant_fault(lane, range)
  if lane.now - lane.ahead >= lane_invalid_at(lane, range) then return range.valid_ms > 0 and 'expired' or 'validity_timeout' end
  if lane_limited(lane) and lane.queue_s and lane.active - lane.ahead - range.arrived >= lane.queue_s * 1000000 then return 'queue_timeout' end
  return nil
end

-- Whether what is granted now may start whoever else starts late.
local function grant_spare(lane)
  return not lane.machine or lane.machine.spare and lane.machine.spare(lane, GRANT_MS)
end

-- Lets up to `tasks_max` tasks of a range start that stand side by side; returns how many did.
local function grant_range(lane, range, tasks_max)
  local cost = lane.machine and math.min(range.cost, lane.max) or range.cost
  local tasks = math.min(lane_run(range), tasks_max, math.floor(lane_room(lane) / cost))
  if tasks == 0 then return 0 end
  local from, to = range.from, range.from + tasks - 1
  local granted_ms = math.floor(lane.now / 1000)
  if lane.machine then lane.machine.take(lane, tasks * cost, range, from, to, granted_ms) end
  lane.last = granted_ms
  local wait_ms = math.floor((lane.active - range.arrived) / 1000)
  lane_take(lane, range, to + 1)
  local life_ms = lane.machine and lane.machine.life and math.min(GRANT_MS, lane.machine.life(lane, granted_ms)) or GRANT_MS
  local marks = lane_text(range.place) .. ' ' .. lane_text(granted_ms) .. ' ' .. lane_text(life_ms)
  local entry = lane_entry_text(lane, range, from, to, range.kind .. (lane_limited(lane) and lane.cooldown == '1' and '!' or ''),
    (grant_spare(lane) and '0' or '') .. lane_text(cost))
  grant_send(lane, range, 'grant', marks .. ' ' .. lane_text(range.to) .. ' ' .. entry)
  lane.granted = lane.granted + tasks
  lane.waits[#lane.waits + 1] = wait_ms
  lane.waits[#lane.waits + 1] = tasks
  return tasks
end

-- The line from its front; returns the range that could not start, and false where the bounds have ended this.
local function grant_line(lane, tasks_max)
  local seen, step = 0, 4
  while true do
    local keys = call('ZRANGE', lane.key .. ':q', seen, seen + step - 1)
    if #keys == 0 then return nil end
    local texts = call('HMGET', lane.key .. ':e', unpack(keys, 1, #keys))
    for i, key in ipairs(keys) do
      local range = lane.entries[key]
      if range == nil then range = lane_entry_read(key, texts[i]) end
      if range then
        if lane_is_dropped(lane_batch(lane, range.core), range) then
          lane_take(lane, range, range.to + 1)
        else
          local fault = grant_fault(lane, range)
          if fault then
            grant_fail(lane, range, fault)
          elseif lane.closed then
            return range
          else
            local tasks = lane_tasks(range)
            repeat
              local run = lane_run(range)
              local granted = grant_range(lane, range, tasks_max)
              tasks_max, tasks = tasks_max - granted, tasks - granted
              if granted < run then
                if tasks_max == 0 and (not lane.machine or lane_room(lane) >= math.min(range.cost, lane.max)) then return false end
                return range
              end
            until tasks == 0
          end
        end
      end
    end
    seen = seen + #keys
    if seen >= GRANT_RANGES_MAX then
      if call('ZCARD', lane.key .. ':q') > seen then return false end
      return nil
    end
    step = math.min(step * 4, GRANT_RANGES_MAX - seen)
  end
end

-- The first score in an index that stays there.
local function grant_index_first(lane, index)
  local gone = 0
  for _, key in ipairs(lane.changed) do
    if not lane.entries[key] then gone = gone + 1 end
  end
  local list = call('ZRANGE', lane.key .. index, 0, gone, 'WITHSCORES')
  for i = 1, #list, 2 do
    if lane.entries[list[i]] ~= false then return tonumber(list[i + 1]) end
  end
  return nil
end

-- When the next of those that wait is too old, by the real time; math.huge for never.
local function grant_too_old_at(lane)
  local first_ms, until_ms = grant_index_first(lane, ':first'), grant_index_first(lane, ':until')
  local at = until_ms and until_ms * 1000 or math.huge
  if first_ms and lane_limited(lane) and lane.valid_s then at = math.min(at, (first_ms + lane.valid_s * 1000) * 1000) end
  return at
end

-- When (in now's time) this lane is to be looked at again, the `range` at its front being stuck; false for never.
local function grant_next(lane, range, ahead_us)
  local at = math.huge
  local function no_later(time) if time and time < at then at = time end end
  if range then
    local closed_until = lane_closed_until(lane)
    if closed_until then
      no_later(closed_until - lane.skew)
    else
      local held = lane_is_held(lane)
      local fits_at = not held and lane.machine.next(lane, math.min(range.cost, lane.max))
      if held then
        no_later(lane.opens * 1000)
      elseif fits_at and ahead_us > 0 and lane.machine.ahead then
        no_later(math.max(fits_at - lane.skew - ahead_us, lane.now - lane.ahead + GRANT_PAUSE_US))
      elseif fits_at then
        no_later(fits_at - lane.skew)
      end
      if lane.queue_s then no_later(lane.now + range.arrived + lane.queue_s * 1000000 - lane.active) end
    end
    no_later(grant_too_old_at(lane))
  end
  if lane.deleted then no_later(lane.deleted * 1000 + GRANT_KEEP_US) end
  return at < math.huge and math.max(at, lane.now - lane.ahead) or false
end

-- How far ahead this lane goes. Where much starts a look that is late costs much, and one that starts late is little beside what a second holds; but each start has a
-- place of its thread from its grant on.
local function grant_reach(lane, ahead_us)
  if not lane_limited(lane) or not lane.interval_s then return ahead_us end
  local units_a_us = ((lane.rate or 0) > 0 and lane.rate or lane.max) / lane.interval_s / 1000000
  if units_a_us * ahead_us / 2 < GRANT_REACH_MIN then return ahead_us / 2 end
  return math.max(ahead_us / 2, math.min(ahead_us, math.floor(GRANT_REACH_MAX / units_a_us)))
end

-- How much a lane may let start in a ms, so that a limiter that opens with all it has does so in half a second: who sends that much at
-- once, and who takes it in, is late with it, and has it nearer to what comes an interval later than it may be. A window opens in each interval
-- as it opened in the one before; where it will for long, it does so nearly evenly. May be a fraction.
local function grant_burst(lane, ahead_us)
  local machine = lane.machine
  if ahead_us == 0 or not machine or not machine.ahead then return math.huge end
  local interval_ms, rate = lane.interval_s * 1000, lane.rate or 0
  local burst = math.max(GRANT_BURST_MIN, math.ceil(lane.max / GRANT_BURST_MS), math.ceil(GRANT_BURST_EVEN * rate / interval_ms))
  if rate > 0 or lane.max < GRANT_SPREAD_FROM or lane.waiting <= lane.max then return burst end
  return math.min(burst, math.max(GRANT_SPREAD_MIN, GRANT_SPREAD_EVEN * lane.max / interval_ms))
end

-- What that is in the ms of `now`: whole tasks.
local function grant_at_once(lane, burst)
  if burst == math.huge then return burst end
  local ms = math.floor(lane.now / 1000)
  return math.floor(burst * (ms + 1)) - math.floor(burst * ms)
end

-- Where the first in line fits soon, the lane goes to that time at once: what is granted then is told before it, and can start at it.
-- So neither the way to the task nor a look that is late costs a limiter anything of what it allows. A level takes together what drips in
-- within some ms, but no more than it holds. `full`: what fits now is more than a ms may have.
local function grant_ahead(lane, range, ahead_us, full)
  local machine = lane.machine
  if range == nil or (range == false and not full) or lane.closed or not machine or not machine.ahead then return false end
  local step, most = 1000, ahead_us - lane.ahead
  if not full then
    step = machine.next(lane, math.min(range.cost, lane.max)) - lane.v
    if step <= 0 or step > most then return false end
    if machine.runs_dry then step = math.max(step, math.min(most, GRANT_TOGETHER_US, machine.runs_dry(lane) - lane.v)) end
  elseif step > most then
    return false
  end
  step = math.ceil((lane.now + step) / 1000) * 1000 - lane.now -- a grant tells its time in whole ms, which must not be before it
  lane.v, lane.t, lane.now, lane.active = lane.v + step, lane.v + step, lane.now + step, lane.active + step
  lane.ahead, lane.settled = lane.ahead + step, false
  lane_settle(lane)
  return true
end

-- Whether a lane may let start in a second what a server cannot, and what it allows is used up.
local function grant_binds(lane)
  local drips = (lane.rate or 0) > 0
  if lane.max + (drips and lane.rate / lane.interval_s or 0) <= GRANT_HELD_FROM then return false end
  if drips then return not grant_spare(lane) end
  return lane.free * 2 <= lane.max
end

-- Where starts come ever later, those who start what was granted cannot keep up: nothing more is granted until the last of it has started, and until
-- all have heard how late.
local function grant_hold(lane)
  local lag = lane.lag or 0
  lane.lag = math.floor(lag * 0.9)
  if not (lane.machine and lane.machine.ahead) or lag <= math.max(0, lane.way or 0) + GRANT_LAG_MS or not grant_binds(lane) then return end
  lane.hold = lane.last or 0
  lane.opens = lane.hold + math.min(lag, GRANT_MS) + LANE_HEARD_MS
  lane.lag, lane.way = 0, -1
end

-- Looks at a lane and plans what follows; returns the tasks that it let start. Starts may be granted `ahead_us` before their time at most.
local function grant_lane(lane, tasks_max, ahead_us)
  -- It may be ahead since the last look, and further than it goes now.
  lane.ahead = math.max(0, math.min(ahead_us, lane.now - lane.real))
  ahead_us = grant_reach(lane, ahead_us)
  lane_settle(lane)
  lane.granted, lane.expired, lane.waits, lane.more = 0, 0, {}, false
  local now_ms = math.floor((lane.now - lane.ahead) / 1000)
  if lane_limited(lane) and lane.valid_s then
    grant_age(lane, ':first', now_ms - lane.valid_s * 1000, 'validity_timeout')
  end
  grant_age(lane, ':until', now_ms, 'expired')
  grant_hold(lane)
  lane.closed = lane_limited(lane) and (lane_closed_until(lane) or lane_is_held(lane))
  local burst, range, full = grant_burst(lane, ahead_us), nil, nil
  local at_once = grant_at_once(lane, burst)
  repeat
    local before, at_most = lane.granted, math.min(tasks_max - lane.granted, at_once)
    range = grant_line(lane, at_most)
    full = at_most == at_once and lane.granted - before == at_once
    local free = lane.free
    local went = grant_ahead(lane, range, ahead_us, full)
    -- What comes back together may start together, so that what came late once is not held up again and again.
    if went then at_once = math.max(grant_at_once(lane, burst), math.min(math.floor(2 * burst), lane.free - free)) end
  until not went
  if range == false and full and not lane.more then
    lane.next = math.min(lane.real + GRANT_PAUSE_US, grant_too_old_at(lane))
  elseif range == false or lane.more then
    lane.more = true
    lane.next = lane.real
  else
    -- Whoever came since the last look and did not start at it has to wait.
    lane.throttled = math.min(lane.fresh, lane.waiting)
    lane.seen, lane.fresh = lane.seq, 0
    lane.next = grant_next(lane, range, ahead_us)
  end
  lane.purge = lane.deleted and not range and not lane.more and lane.now >= lane.deleted * 1000 + GRANT_KEEP_US
  tally(lane, lane.now, lane.granted, lane.throttled or 0, lane.expired)
  return lane.granted
end
