-- Lets tasks start that wait for rate limiters, as many as those allow now, and fails those that have waited too long.
--
-- Lanes whose time has come (`lanes`) are looked at, the one that waits longest first; each is then put down for the next time at which
-- something can change for it by itself, so a lane costs nothing while it waits. Everything for the batches goes as messages.
-- A lane without a record, or whose limiter was deleted, limits nothing.
--
-- @flags allow-oom
-- @key   meta      hash    {pN}:m
-- @arg   lanes_max int     lanes looked at in one call; never more than 16
-- @arg   tasks_max int     tasks that start in one call; never more than 500
-- @arg   ahead_us  int     how long before its time a start may be granted; 0 for none
-- @arg   now_us    now_us  this shard's clock
-- @reply [number, string, number, number, [string, string, number, number, number, number, number[], string, string][], [number, string[]][]]   this shard's time (ms); next time that a lane is to be looked at, '' where none; 1 where more is due now; 1 where messages wait that are not among those below; of each lane: core, kind ('' unknown), granted, expired, reclaimed, waiting, (ms waited, tasks) of each range, account, name; messages that the caller may carry over at once: of each destination its number and all that waits for it
-- @cost  O(tasks + ranges), 500 of each at most for each lane
-- @include lib/grant

local LANES_MAX, TASKS_MAX, CLOCK_STEP_MS = 16, 500, 1000
local lanes = root .. 'lanes'
local now_ms = now_us / 1000

-- A clock that was set back makes all times in `lanes` too late: everything is looked at once.
local last_ms = tonumber(call('HGET', meta, 'granted') or '0')
local stepped = now_ms < last_ms - CLOCK_STEP_MS and call('ZRANGE', lanes, 0, -1) or {}
local due = call('ZRANGEBYSCORE', lanes, '-inf', #stepped > 0 and '+inf' or string.format('%.3f', now_ms), 'LIMIT', 0, math.min(lanes_max, LANES_MAX))

local left = math.min(tasks_max, TASKS_MAX)
local more, reply = 0, {}
local shown = {}
for i, core in ipairs(due) do
  local lane = lane_load(core, now_us)
  left = left - grant_lane(lane, math.ceil(left / (#due - i + 1)), ahead_us)
  if lane.more then more = 1 end
  lane.told = (lane.reclaimed or 0) + (lane.lost or 0)
  shown[i] = lane
end
-- Read before the first write, and so without those that were looked at.
local after = call('ZRANGE', lanes, 0, #due, 'WITHSCORES')

lane_plan()

for _, core in ipairs(stepped) do call('ZADD', lanes, string.format('%.3f', now_ms), core) end
lane_write()
outbox_write()
for _, lane in ipairs(shown) do
  if lane.purge then lane_forget(lane) end
end
call('HSET', meta, 'granted', string.format('%.0f', now_ms))

local next_ms = math.huge
for i = 1, #after, 2 do
  if not lanes_by_core[after[i]] then next_ms = math.min(next_ms, #stepped > 0 and now_ms or tonumber(after[i + 1])) end
end
for i, lane in ipairs(shown) do
  if lane.next and not lane.purge then next_ms = math.min(next_ms, lane.next / 1000) end
  reply[i] = { lane.core, lane.kind or '', lane.granted, lane.expired, lane.told, lane.waiting, lane.waits,
    lane.account or '', lane.name or '' }
end
if next_ms <= now_ms then more = 1 end
local slices, waiting = outbox_slices()
return { math.floor(now_ms), next_ms < math.huge and string.format('%.3f', next_ms) or '', more, waiting, reply, slices }
