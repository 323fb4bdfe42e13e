-- An API limit as an exact sliding window: the times of the last requests that were let through, one list a limit.
-- A refused request is not in it.
local QUOTA_WINDOW_MS, QUOTA_READ_MAX = 60000, 4000

-- How many times at the front of the list have left the window. Times ahead of the clock (it stepped back) leave too.
local function quota_passed(key, length, now)
  local first = tonumber(redis.call('LINDEX', key, 0) or now)
  if first > now - QUOTA_WINDOW_MS and first <= now then return 0, first end
  local passed = 0
  for _, text in ipairs(redis.call('LRANGE', key, 0, math.min(length, QUOTA_READ_MAX) - 1)) do
    first = tonumber(text)
    if first > now - QUOTA_WINDOW_MS and first <= now then return passed, first end
    passed = passed + 1
  end
  return passed, now
end

local quota_plans = {}

-- Takes `wanted` requests of `limit` a minute (0 = none), or as many as there are; quota_write lets them in. Returns how many
-- may go, how many are left after them, ms until one more is.
local function quota_plan(key, limit, now, wanted)
  if limit == 0 then return wanted, 0, 0 end
  local length = redis.call('LLEN', key)
  local passed, first = quota_passed(key, length, now)
  local left = limit - (length - passed)
  local granted = math.max(0, math.min(left, wanted))
  if granted > 0 then quota_plans[#quota_plans + 1] = { key = key, granted = granted, passed = passed, now = now } end
  return granted, math.max(0, left) - granted, first + QUOTA_WINDOW_MS - now
end

local function quota_write()
  for _, plan in ipairs(quota_plans) do
    local times = {}
    for i = 1, plan.granted do times[i] = plan.now end
    for i = 1, plan.granted, 1000 do redis.call('RPUSH', plan.key, unpack(times, i, math.min(i + 999, plan.granted))) end
    if plan.passed > 0 then redis.call('LTRIM', plan.key, plan.passed, -1) end
    redis.call('PEXPIRE', plan.key, QUOTA_WINDOW_MS)
  end
end
