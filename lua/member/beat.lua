-- Says that a process is alive and answers with all that are, by this shard's clock.
--
-- @flags allow-oom
-- @key   members   hash    {hN}:members
-- @arg   id        string  the process; '' only looks
-- @arg   threads   int     callback threads it runs; 0 leaves
-- @arg   silence_ms int    one silent for longer is not counted
-- @arg   now_ms    now     this shard's clock
-- @reply string[]          of each live member: id, threads
-- @cost  O(members)
local all = redis.call('HGETALL', members)
if id ~= '' and threads > 0 then
  redis.call('HSET', members, id, string.format('%.0f %.0f', threads, now_ms))
elseif id ~= '' then
  redis.call('HDEL', members, id)
end
local live = {}
if id ~= '' and threads > 0 then
  live[1], live[2] = id, string.format('%.0f', threads)
end
for i = 1, #all, 2 do
  local count, seen_ms = string.match(all[i + 1], '^(%d+) (%d+)$')
  if all[i] ~= id then
    if now_ms - tonumber(seen_ms) > 60000 then
      redis.call('HDEL', members, all[i])
    elseif now_ms - tonumber(seen_ms) <= silence_ms then
      live[#live + 1] = all[i]
      live[#live + 1] = count
    end
  end
end
return live
