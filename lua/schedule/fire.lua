-- Decides one tick of a schedule: makes its run, or says why there is none, and moves on to the next tick. Once, whoever
-- else does the same or did it before: only while version and tick are those that the caller saw.
--
-- Rule 3: no run while the latest one whose time has come is unfinished (its task runs or waits for a retry or for a
-- limiter). Judged as of the tick's own time: a run that was made later than that, after a downtime, did not exist then
-- and stands in nobody's way; nor does one that was made ahead of its time, and began only when the downtime was over. A tick that has a run already (its schedule was changed meanwhile) gets no second one.
--
-- @key   meta        hash    {pN}:m
-- @arg   core        string  the schedule
-- @arg   version     string  as it was seen
-- @arg   tick        int     the tick to decide
-- @arg   verdict     string  run, or why there is none: missed (too old), limiter (deleted), moved (no tick any more: the zone's rules changed)
-- @arg   ticks       int     how many ticks this decides; more than one only of those missed
-- @arg   next_tick   string  the one after it, '' none
-- @arg   next_due    string  when that is to be decided (ms), '' where there is none
-- @arg   run_core    string  name of the batch of the run, or of the tray, should one be opened
-- @arg   staged      int     1 where the segments of the run were staged
-- @arg   grace_ms    int     what a lease has beyond a task's timeout
-- @arg   now_ms      now     this shard's clock
-- @rest  parts               see lib/run; empty where the verdict is not run
-- @reply [string, number]    made, overlap (rule 3), again (it has a run), skipped (the verdict), stale (decided by another), lost (staged segments are gone: nothing was decided); tasks made
-- @cost  O(runs + segments, at most 2 of them unless staged); for a tick that is late also O(in flight)
-- @include lib/run

local s = schedule_load(core)
if not s or s.s ~= 'active' or s.v ~= version or tonumber(s.k) ~= tick then return { 'stale', 0 } end

-- A tick that is later than this was missed: nobody was there to decide it.
local MISSED_MS = 2000

-- When the first attempt of a task in flight began; nil where it is not the first.
local function begun_ms(before)
  local pattern = '^' .. before.core .. ',(%d+),(%d+),'
  for _, holder in ipairs(call('HKEYS', root .. 'holders')) do
    local members = call('ZRANGE', root .. 'active:' .. holder, 0, -1, 'WITHSCORES')
    for i = 1, #members, 2 do
      local from, to = string.match(members[i], pattern)
      if from and tonumber(from) <= before.index and before.index <= tonumber(to) then
        local ref = member_read(members[i])
        return ref.attempt == 1 and ref.recoveries == 0 and tonumber(members[i + 1]) - ref.timeout_s * 1000 - grace_ms or nil
      end
    end
  end
end

local function unfinished(member)
  local before = run_read(member)
  if before.created_ms >= tick then return false end
  local missed = now_ms - tick > MISSED_MS
  local limited = string.find(before.flags, 'l', 1, true)
  if before.kind == 't' then
    local state = call('GETRANGE', root .. 'b:' .. before.core .. ':s', before.index, before.index)
    if missed and state == 'p' and (begun_ms(before) or 0) >= tick then return false end
    return state == 'p' or state == 'P' or state == 'r' or (state == 'q' and limited ~= nil)
  end
  local v = call('HMGET', root .. 'b:' .. before.core, 's', 'r', 'p')
  if missed and v[3] and tonumber(v[3]) >= tick then return false end
  return v[1] == 'processing' or tonumber(v[2] or '0') > 0 or (v[1] == 'pending' and limited ~= nil)
end

local latest = call('ZREVRANGEBYSCORE', s.runs, now_ms, '-inf', 'WITHSCORES', 'LIMIT', 0, 1)
local outcome = verdict == 'run' and 'made' or 'skipped'
if outcome == 'made' then
  if latest[1] and unfinished(latest[1]) then outcome = 'overlap' end
  for _, member in ipairs(call('ZRANGEBYSCORE', s.runs, tick, tick)) do
    if not string.find(run_read(member).flags, 'x', 1, true) then outcome = 'again' end
  end
  if s.y == 'b' and call('EXISTS', root .. 'b:' .. run_core) == 1 then outcome = 'again' end
end
if outcome == 'made' and not run_plan(s, tick, run_core, parts, staged, s.limited and 'l' or '-', now_ms) then return { 'lost', 0 } end

if outcome == 'made' then
  run_write(now_ms)
elseif outcome == 'overlap' or verdict == 'missed' or verdict == 'limiter' then
  call('HINCRBY', s.key, 'i', ticks)
end
if verdict == 'limiter' then call('HSET', s.key, 'f', 'rate_limiter_not_found ' .. string.format('%.0f', now_ms)) end
call('HSET', s.key, 'k', next_tick)
if latest[2] and tonumber(latest[2]) > tonumber(s.l or '0') then call('HSET', s.key, 'l', string.format('%.0f', tonumber(latest[2]))) end
if next_due == '' then call('ZREM', root .. 'schedules', core) else call('ZADD', root .. 'schedules', next_due, core) end
return { outcome, outcome == 'made' and run.tasks or 0 }
