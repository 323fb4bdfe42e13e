-- Deletes a batch that has finished: it is gone for callers at once, and `tick` frees its memory in slices. Its companion
-- (lib/notify) goes with it, whatever of it has not been delivered.
--
-- @flags allow-oom
-- @key   meta      hash    {pN}:m
-- @arg   core      string  the batch
-- @arg   account   string  account id
-- @arg   now_ms    now     this shard's clock
-- @reply [string, string, number]  outcome (deleted, missing, state: it has not finished), status, notifications that were not delivered
-- @cost  O(1)
-- @include lib/batch

local b = batch_visible(core, account)
if not b then return { 'missing', '', 0 } end
if batch_live(b) or not b.z then return { 'state', b.s, 0 } end

local status = b.s
local lists = label_keys(account, call('HGET', b.key, 'l') or '')
lists[#lists + 1] = list_key(b)
lists[#lists + 1] = list_key(b, status)
local notes = batch_load(core .. 'n')
local dropped = notes and notes.n - notes.c - notes.f - notes.x or 0

call('HSET', b.key, 's', 'deleted')
for _, key in ipairs(lists) do call('ZREM', key, core) end
call('ZADD', root .. 'deadlines', now_ms, core)
if notes then call('UNLINK', notes.key, notes.key .. ':s', notes.key .. ':0') end
if dropped > 0 then call('HSETNX', meta, 'stale', now_ms) end -- see lib/stale
call('SPUBLISH', root .. 'bell', string.format('%.0f', now_ms))
return { 'deleted', status, dropped }
