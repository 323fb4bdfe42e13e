-- Takes a name for a limiter that is about to be made, unless another limiter has it.
--
-- Limiter and name lie in different slots, so they cannot be made together: the name first, then the limiter, then
-- names/confirm. What died in between leaves a reservation, which the next one who wants the name looks into.
-- A repeated call changes nothing and answers as the first.
--
-- @key   names     hash    {hN}:a:<account>:limiters
-- @key   reserved  zset    {hN}:a:<account>:limiters:reserved
-- @arg   name      string  what the limiter is to be called
-- @arg   core      string  the limiter
-- @arg   now_ms    now     this shard's clock
-- @reply [string, number]  the limiter that has the name instead, '' where none; ms since it was reserved, -1 where it is confirmed
-- @cost  O(log of what is reserved)
local held = redis.call('HGET', names, name)
if held and held ~= core then
  local since_ms = redis.call('ZSCORE', reserved, held .. ' ' .. name)
  return { held, since_ms and math.max(0, now_ms - tonumber(since_ms)) or -1 }
end
if not held then
  redis.call('HSET', names, name, core)
  redis.call('ZADD', reserved, now_ms, core .. ' ' .. name)
end
return { '', 0 }
