-- Raises the number of partitions: never lowers it, whoever else raises it meanwhile.
--
-- @key   shared    hash    {hN}:meta
-- @arg   wanted    int     the new number
-- @reply [number, number]  the number before and now
-- @cost  O(1)
local before = tonumber(redis.call('HGET', shared, 'partitions'))
if wanted > before then redis.call('HSET', shared, 'partitions', string.format('%.0f', wanted)) end
return { before, math.max(before, wanted) }
