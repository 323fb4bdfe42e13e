-- A page of an account's limiters, newest first, and the reservations that were left behind.
--
-- @flags no-writes
-- @key   reserved  zset    {hN}:a:<account>:limiters:reserved
-- @key   list      zset    {hN}:a:<account>:limiters:list
-- @arg   limit     int     of the page
-- @arg   offset    int     limiters before it
-- @arg   after_ms  string  creation time of a limiter behind which the page begins (then offset is 0), '' where it does not
-- @arg   after     string  its core
-- @arg   stale_ms  int     age of a reservation that nobody will confirm any more
-- @arg   now_ms    now     this shard's clock
-- @reply [number, string[], string[]]   all limiters; of each of up to 100 stale reservations `<core> <name>`; cores of the page
-- @cost  O(log of the account's limiters + page + limiters of one millisecond)
-- As Redis orders them; Lua's own comparison goes by the language of the machine.
local function is_less(a, b)
  for i = 1, math.min(#a, #b) do
    if string.byte(a, i) ~= string.byte(b, i) then return string.byte(a, i) < string.byte(b, i) end
  end
  return #a < #b
end

if after_ms ~= '' then
  offset = redis.call('ZCOUNT', list, '(' .. after_ms, '+inf')
  for _, core in ipairs(redis.call('ZRANGEBYSCORE', list, after_ms, after_ms)) do
    if not is_less(core, after) then offset = offset + 1 end
  end
end
local stale = redis.call('ZRANGEBYSCORE', reserved, '-inf', now_ms - stale_ms, 'LIMIT', 0, 100)
return { redis.call('ZCARD', list), stale, redis.call('ZREVRANGE', list, offset, offset + limit - 1) }
