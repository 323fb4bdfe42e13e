-- Opens a limiter that is paused, or that a target has asked to cool down.
--
-- @flags allow-oom
-- @key   meta      hash    {pN}:m
-- @arg   core      string  its id without the prefix
-- @arg   account   string  whose it is
-- @arg   now_us    now_us  this shard's clock
-- @reply string[]  the record; empty where the account has none, or it was deleted
-- @cost  O(1)
-- @include lib/record

local lane = record_lane(core, account, now_us)
if not lane then return {} end

lane.pause, lane.cool = 0, 0
lane_wake(lane, lane.now)
lane_plan()
call('HSET', lane.key, 'updated', lane_text(math.floor(now_us / 1000)))
lane_write()
return record_reply(lane)
