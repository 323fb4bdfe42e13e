-- Reads a batch for its owner, within his limit on such reads: who it belongs to, the limit and the state in one step.
--
-- @flags allow-oom
-- @key   meta      hash    {pN}:m
-- @arg   core      string  the batch
-- @arg   account   string  account id
-- @arg   limit     int     reads of this batch a minute; 0 = no limit
-- @arg   states    int     1 to have the state bytes too
-- @arg   now_ms    now     this shard's clock
-- @reply [number, number, number, (string | null)[], string]   0 missing, 1 refused, 2 granted; left in the window; ms until one more is; fields as in BATCH_FIELDS; states
-- @cost  O(1), with states O(tasks) bytes copied
-- @include lib/root
-- @include lib/quota

local key = root .. 'b:' .. core
local fields = call('HMGET', key, 'a', 's', 'n', 'c', 'f', 'x', 'r', 't', 'u', 'z', 'd', 'g', 'o', 'h')
if fields[1] ~= account or fields[2] == 'tray' or fields[2] == 'deleted' then return { 0, 0, 0, {}, '' } end
local text = states == 1 and call('GET', key .. ':s') or ''
local granted, left, next_ms = quota_take(key .. ':quota:status', limit, now_ms)
if granted == 0 then return { 1, left, next_ms, {}, '' } end
return { 2, left, next_ms, fields, text }
