-- @include lib/ready
-- Work with a time: `delayed` holds `<flow>|<entry>` by due time. A tick gives it to its flow so long before that, and who claims it waits
-- for the time; then the way to Redis and back makes nobody late. What a limiter is to let start is given to that at its time.
local DUE_AHEAD_MS = 10
local delays = {}
-- When the earliest of what was in it before this script is looked for, where that is of interest.
local delayed_before = nil

local function delayed_push(due_ms, flow, entry)
  delays[#delays + 1] = due_ms
  delays[#delays + 1] = flow .. '|' .. entry
end

-- Ready at once where its time has come.
local function enqueue(now, due_ms, flow, entry)
  if due_ms > now then delayed_push(due_ms, flow, entry) else ready_push(flow, entry) end
end

local function queue_write()
  if #delays > 0 then
    delayed_before = tonumber(call('ZRANGE', root .. 'delayed', 0, 0, 'WITHSCORES')[2])
    if delayed_before then delayed_before = delayed_before - DUE_AHEAD_MS end
  end
  ready_write()
  for i = 1, #delays, 1000 do call('ZADD', root .. 'delayed', unpack(delays, i, math.min(i + 999, #delays))) end
end

-- When the earliest of what this script delays is looked for, or nil.
local function delays_first()
  local first = nil
  for i = 1, #delays, 2 do
    if not first or delays[i] < first then first = delays[i] end
  end
  return first and first - DUE_AHEAD_MS
end

-- Hints to whoever works on this partition: `0` where work is ready (or `granted`), and the time at which some will be, or at which
-- something else (`sooner_ms`) is to happen before. Who hears only the first claims, and learns of no time by that.
-- No time where something is due no later: whoever works here wakes then, and is told what comes next. With work that is ready only a
-- near one is told (`now_ms` is given then): he looks again by himself so soon.
local LOOK_MS = 10000
local function ring_bell(sooner_ms, granted, now_ms)
  local ready = granted or #plans_made > 0
  if ready then call('SPUBLISH', root .. 'bell', '0') end
  local far = ready and not (now_ms and sooner_ms and sooner_ms < now_ms + LOOK_MS)
  if #delays == 0 and (far or not sooner_ms) then return end
  local at = math.min(delays_first() or math.huge, sooner_ms or math.huge)
  if not delayed_before or delayed_before > at then call('SPUBLISH', root .. 'bell', string.format('%.0f', at)) end
end
