-- Creates a limiter, or finds it created.
--
-- @key   meta      hash    {pN}:m
-- @arg   core      string  its id without the prefix
-- @arg   account   string  whose it is
-- @arg   now_us    now_us  this shard's clock
-- @rest  fields            names and values of the record and the machine's numbers
-- @reply string[]  the record; see lib/record
-- @cost  O(1)
-- @include lib/record

local lane = lane_load(core, now_us)
if lane.account then return lane.account == account and record_reply(lane) or {} end

local now_ms = lane_text(math.floor(now_us / 1000))
call('HSET', lane.key, 'account', account, 'created', now_ms, 'updated', now_ms, unpack(fields, 1, #fields))
return record_reply(lane)
