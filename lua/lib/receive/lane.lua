-- @include lib/root
-- The references that a lane holds: `lane:<lane>:q`, a zset of them by place, the first to go first. Changes are planned
-- in memory and written once, so a message sees what those before it in the same call have done.
local lane_changes, lane_changes_made = {}, {}

local function lane_key(lane) return root .. 'lane:' .. lane .. ':q' end

-- Lane and reference in `<lane> <reference>`.
local function lane_split(field) return string.match(field, '^(%w+) (.*)$') end

-- The place of a reference, false where the lane does not hold it.
local function lane_place(lane, ref)
  local change = lane_changes[lane .. ' ' .. ref]
  if change then return change.place end
  return call('ZSCORE', lane_key(lane), ref)
end

-- `place` false takes it out.
local function lane_set(lane, ref, place)
  local name = lane .. ' ' .. ref
  local change = lane_changes[name]
  if not change then
    change = { key = lane_key(lane), ref = ref }
    lane_changes[name] = change
    lane_changes_made[#lane_changes_made + 1] = change
  end
  change.place = place
end

local function lane_touch()
  local list = {}
  for i, change in ipairs(lane_changes_made) do list[i] = change.key end
  touch(list)
end

local function lane_write()
  for _, change in ipairs(lane_changes_made) do
    if change.place then call('ZADD', change.key, change.place, change.ref) else call('ZREM', change.key, change.ref) end
  end
end
