-- Reads a limiter's record; empty where there is none.
--
-- @flags no-writes
-- @key   meta      hash    {pN}:m
-- @arg   core      string  its id without the prefix
-- @arg   now_us    now_us  this shard's clock
-- @reply string[]  the record; see lib/record
-- @cost  O(1)
-- @include lib/record

local lane = lane_load(core, now_us)
return lane.account and record_reply(lane) or {}
