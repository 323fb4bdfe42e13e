-- Says that a process is alive and answers with all that are, by this shard's clock; for what makes callbacks and for what decides ticks.
--
-- @flags allow-oom
-- @key   members   hash    {hN}:members
-- @key   crons     hash    {hN}:members:cron
-- @arg   id        string  the process; '' only looks
-- @arg   callbacks int     callback threads it runs; 0 leaves
-- @arg   cron      int     threads for ticks; 0 leaves
-- @arg   silence_ms int    one silent for longer is not counted
-- @arg   now_ms    now     this shard's clock
-- @reply string[]          of each live member: id, callback threads, threads for ticks
-- @cost  O(members)
local live, places = {}, {}
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
  for i = 1, #all, 2 do
    local threads, seen_ms = string.match(all[i + 1], '^(%d+) (%d+)$')
    local silent_ms = now_ms - tonumber(seen_ms)
    if all[i] == id and own == 0 or all[i] ~= id and silent_ms > 60000 then
      redis.call('HDEL', key, all[i])
    elseif all[i] ~= id and silent_ms <= silence_ms then
      seen(all[i], threads)
    end
  end
  if own > 0 then redis.call('HSET', key, id, string.format('%.0f %.0f', own, now_ms)) end
end
count(members, callbacks, 1)
count(crons, cron, 2)
return live
