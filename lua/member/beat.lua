-- Says that a process is alive and answers with all that are, by this shard's clock; for what makes callbacks and for what decides ticks.
--
-- Where nobody was heard for a while, the one who asks among them, it was Redis that stood still: all marks move with the gap, and
-- who has died in it is missed after it. Each time they lose a little, so that who is left alone, and slow, misses the others in the end.
--
-- @flags allow-oom
-- @key   members   hash    {hN}:members
-- @key   crons     hash    {hN}:members:cron
-- @arg   id        string  the process; '' only looks
-- @arg   callbacks int     callback threads it runs; 0 leaves
-- @arg   cron      int     threads for ticks; 0 leaves
-- @arg   silence_ms int    one silent for longer is not counted
-- @arg   ahead_ms  int     as of when, from now, its silence begins
-- @arg   now_ms    now     this shard's clock
-- @reply string[]          in how many ms the first of the others is silent for too long, '' where there are none; then of each live member: id, callback threads, threads for ticks
-- @cost  O(members)
-- A gap that is not noticed, and a beat, are not more than the silence that is asked for.
local GAP_MS, LOST_MS, AHEAD_MS_MAX = 550, 100, 1000
local live, places = { '' }, {}
local left_ms = math.huge
local function count(key, own, column)
  local function seen(name, threads)
    local at = places[name]
    if not at then
      at = #live + 1
      places[name], live[at], live[at + 1], live[at + 2] = at, name, '0', '0'
    end
    live[at + column] = threads
  end
  if own > 0 then seen(id, string.format('%.0f', own)) end
  local all = redis.call('HGETALL', key)
  local newest_ms, own_ms = 0, -math.huge
  for i = 2, #all, 2 do
    -- Further ahead than anybody dates his: the clock was set back.
    local seen_ms = math.min(now_ms + AHEAD_MS_MAX, tonumber(string.match(all[i], '(%d+)$')))
    newest_ms = math.max(newest_ms, seen_ms)
    if all[i - 1] == id then own_ms = seen_ms end
  end
  local gap_ms = own_ms >= newest_ms - silence_ms and now_ms - newest_ms > GAP_MS and now_ms - newest_ms or 0
  for i = 1, #all, 2 do
    local threads, text = string.match(all[i + 1], '^(%d+) (%d+)$')
    local was_ms = tonumber(text)
    local seen_ms = math.min(now_ms + AHEAD_MS_MAX, was_ms)
    if gap_ms > 0 and seen_ms >= newest_ms - silence_ms then seen_ms = seen_ms + gap_ms - LOST_MS end
    if seen_ms ~= was_ms then
      redis.call('HSET', key, all[i], string.format('%s %.0f', threads, seen_ms))
    end
    local silent_ms = now_ms - seen_ms
    if all[i] == id and own == 0 or all[i] ~= id and silent_ms > 60000 then
      redis.call('HDEL', key, all[i])
    elseif all[i] ~= id and silent_ms <= silence_ms then
      left_ms = math.min(left_ms, silence_ms - silent_ms)
      seen(all[i], threads)
    end
  end
  if own > 0 then redis.call('HSET', key, id, string.format('%.0f %.0f', own, now_ms + ahead_ms)) end
end
count(members, callbacks, 1)
count(crons, cron, 2)
if left_ms < math.huge then live[1] = string.format('%d', left_ms) end
return live
