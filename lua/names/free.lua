-- Gives a name back, where this limiter still has it, and takes the limiter off the list.
--
-- @flags allow-oom
-- @key   names      hash    {hN}:a:<account>:limiters
-- @key   reserved   zset    {hN}:a:<account>:limiters:reserved
-- @key   list       zset    {hN}:a:<account>:limiters:list
-- @arg   name       string  '' where it is not known
-- @arg   core       string  the limiter
-- @arg   confirmed  int     0: only where the name is reserved; its maker may have confirmed it since somebody looked
-- @reply number             1 where it had the name
-- @cost  O(log of the account's limiters)
local member = core .. ' ' .. name
if confirmed == 0 and not redis.call('ZSCORE', reserved, member) then return 0 end
local mine = redis.call('HGET', names, name) == core
if mine then redis.call('HDEL', names, name) end
redis.call('ZREM', reserved, member)
redis.call('ZREM', list, core)
return mine and 1 or 0
