-- Changes a limiter. What it has let start until now counts by its new config; the tasks that wait feel it at once.
--
-- @key   meta      hash    {pN}:m
-- @arg   core      string  its id without the prefix
-- @arg   account   string  whose it is
-- @arg   now_us    now_us  this shard's clock
-- @rest  fields            names and new values of the record and the machine's numbers
-- @reply string[]  the record; empty where the account has none, or it was deleted
-- @cost  O(1), O(1,026) where a window's interval changes
-- @include lib/record

local lane = record_lane(core, account, now_us)
if not lane then return {} end

local before = { form = lane.form, max = lane.max, rate = lane.rate, interval_s = lane.interval_s }
local adapt = false
for i = 1, #fields, 2 do
  local field, value = fields[i], fields[i + 1]
  if LANE_TEXTS[field] then lane[field] = value elseif lane[field] then lane[field] = tonumber(value) end
  if field == 'form' then adapt = true end
end
if adapt then
  lane.machine = machines[lane.form]
  lane.machine.adapt(lane, before)
  -- Counts by time stay what they are while the interval does; a level may have been cut to what it can hold.
  local kept = before.form == lane.form and before.interval_s == lane.interval_s and lane.form ~= 'level'
  if not kept then lane.since = math.max(lane.since or 0, lane.now + 1) end -- as after a reset
end
lane_wake(lane, lane.now)

lane_plan()
call('HSET', lane.key, 'updated', lane_text(math.floor(now_us / 1000)), unpack(fields, 1, #fields))
lane_write()
return record_reply(lane)
