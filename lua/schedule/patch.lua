-- Changes a schedule whose version is still the one that the caller read: what follows from its fields (the next tick,
-- the plan of its runs) was computed from them.
--
-- @key   meta            hash    {pN}:m
-- @arg   core            string  the schedule
-- @arg   account         string  account id
-- @arg   version         string  as it was read
-- @arg   status          string  active or disabled
-- @arg   seen            string  the tick to decide next as it was read, '' none: where that changes it must be the same still
-- @arg   tick            string  the tick to decide next, '' none, 'keep' as it is
-- @arg   due             string  when it is to be decided (ms), '' where there is none
-- @arg   template        string  name of the new template, '' where it stays
-- @arg   now_ms          now     this shard's clock
-- @rest  parts           segments, task keys, fields that change: see lib/template
-- @reply string          patched, missing, changed (another version), lost (staged segments expired)
-- @cost  O(segments + task keys)
-- @include lib/schedule
-- @include lib/template

local s = schedule_load(core, account)
if not s then return 'missing' end
if s.v ~= version or (tick ~= 'keep' and s.k ~= seen) then return 'changed' end
if not template_plan(s, template, parts) then return 'lost' end
local old = template ~= '' and template_keys(s) or {}

local created_ms = call('HGET', s.key, 't')
template_write()
call('HINCRBY', s.key, 'v', 1)
call('HSET', s.key, 's', status, 'u', now_ms)
if template ~= '' then
  call('HSET', s.key, 'g', template)
  call('HDEL', s.key, 'f')
  call('UNLINK', unpack(old, 1, #old))
end
if status ~= s.s then
  call('ZREM', schedule_list(account, s.s), core)
  call('ZADD', schedule_list(account, status), created_ms, core)
end
if tick ~= 'keep' then
  call('HSET', s.key, 'k', tick)
  if due == '' then call('ZREM', root .. 'schedules', core) else call('ZADD', root .. 'schedules', due, core) end
  ring_cron(due)
end
return 'patched'
