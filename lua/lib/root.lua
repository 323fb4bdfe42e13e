-- The beginning of every key of this partition; mirrors src/store/keys.ts.
local root = string.sub(meta, 1, -2)
local call = redis.call

-- Where the slot is on its way to another node no script runs, on either side, since it would see a part of its keys: one
-- that has moved away fails its access after earlier writes, and one that has not come yet looks like one that does not
-- exist. Two names of which one never exists: both sides answer that with an error. Costs 0.4 us where all is well.
call('EXISTS', meta, root .. '?')
