-- A page of an account's limiters, newest first, and the reservations that were left behind.
--
-- @flags no-writes
-- @key   reserved  zset    {hN}:a:<account>:limiters:reserved
-- @key   list      zset    {hN}:a:<account>:limiters:list
-- @arg   limit     int     of the page
-- @arg   offset    int     limiters before it
-- @arg   stale_ms  int     age of a reservation that nobody will confirm any more
-- @arg   now_ms    now     this shard's clock
-- @reply [number, string[], string[]]   all limiters; of each of up to 100 stale reservations `<core> <name>`; cores of the page
-- @cost  O(log of the account's limiters + page)
local stale = redis.call('ZRANGEBYSCORE', reserved, '-inf', now_ms - stale_ms, 'LIMIT', 0, 100)
return { redis.call('ZCARD', list), stale, redis.call('ZREVRANGE', list, offset, offset + limit - 1) }
