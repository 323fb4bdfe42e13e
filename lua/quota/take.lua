-- Takes one request from an API limit: an exact sliding minute, shared by all processes.
--
-- @flags allow-oom
-- @key   window    list    {hN}:a:<account>:quota:<policy> or {pN}:b:<core>:quota:<policy>
-- @arg   limit     int     requests a minute
-- @arg   now_ms    now     this shard's clock
-- @reply [number, number, number]   1 granted; left in the window; ms until one more is
-- @cost  O(1), now and then O(limit)
-- @include lib/quota
local granted, left, next_ms = quota_plan(window, limit, now_ms, 1)
quota_write()
return { granted, left, next_ms }
