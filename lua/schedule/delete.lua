-- Deletes a schedule at once; what it made stays, under its own ids.
--
-- @flags allow-oom
-- @key   meta      hash    {pN}:m
-- @arg   core      string  the schedule
-- @arg   account   string  account id
-- @reply number            1, or 0 where the account has no such schedule
-- @cost  O(segments of the template); its memory is freed in the background
-- @include lib/schedule
-- @include lib/template

local s = schedule_load(core, account)
if not s then return 0 end
local list = template_keys(s)
list[#list + 1] = s.key
list[#list + 1] = s.doc
list[#list + 1] = s.runs
call('UNLINK', unpack(list, 1, #list))
call('ZREM', schedule_list(account), core)
call('ZREM', schedule_list(account, s.s), core)
call('ZREM', root .. 'schedules', core)
return 1
