-- Closes a limiter: nothing starts until then, or until it is resumed. Time in which it is closed does not count for queue_timeout.
--
-- @flags allow-oom
-- @key   meta      hash    {pN}:m
-- @arg   core      string  its id without the prefix
-- @arg   account   string  whose it is
-- @arg   until_ms  string  when it opens by itself, 'inf' never
-- @arg   now_us    now_us  this shard's clock
-- @reply string[]  the record; empty where the account has none, or it was deleted
-- @cost  O(1)
-- @include lib/record

local lane = record_lane(core, account, now_us)
if not lane then return {} end

-- A time that goes on where the clock is set.
lane.pause = until_ms == 'inf' and math.huge or lane.v + tonumber(until_ms) * 1000 - now_us
lane_wake(lane, lane.now)
lane_plan()
call('HSET', lane.key, 'updated', lane_text(math.floor(now_us / 1000)))
lane_write()
return record_reply(lane)
