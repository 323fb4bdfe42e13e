-- Lists a limiter that was made under a reserved name. A repeated call changes nothing.
--
-- @flags allow-oom
-- @key   names       hash    {hN}:a:<account>:limiters
-- @key   reserved    zset    {hN}:a:<account>:limiters:reserved
-- @key   list        zset    {hN}:a:<account>:limiters:list
-- @arg   name        string  its name
-- @arg   core        string  the limiter
-- @arg   created_ms  int     by its partition's clock
-- @reply number              1; 0 where another has the name by now
-- @cost  O(log of the account's limiters)
if redis.call('HGET', names, name) ~= core then return 0 end
redis.call('ZREM', reserved, core .. ' ' .. name)
redis.call('ZADD', list, created_ms, core)
return 1
