-- Forgets the units that a limiter has given out; slots of running tasks stay taken.
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

lane.machine.reset(lane)
lane.since = math.max(lane.since or 0, lane.now + 1) -- what was granted in this very us is not known apart
lane_wake(lane, lane.now)
lane_plan()
lane_write()
return record_reply(lane)
