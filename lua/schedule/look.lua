-- For how long the tick that waits longest in a partition should have been decided: 0 while tickers keep up.
--
-- @flags no-writes
-- @key   meta      hash    {pN}:m
-- @arg   now_ms    now     this shard's clock
-- @reply number            milliseconds
-- @cost  O(1)
-- @include lib/root

local first = call('ZRANGE', root .. 'schedules', 0, 0, 'WITHSCORES')
return math.max(0, now_ms - tonumber(first[2] or now_ms))
