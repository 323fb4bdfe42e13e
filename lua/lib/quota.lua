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

-- Takes one request of `limit` a minute (0 = none). Returns 1 where it may go, how many are left, ms until one more is.
local function quota_take(key, limit, now)
  if limit == 0 then return 1, 0, 0 end
  local length = redis.call('LLEN', key)
  local passed, first = quota_passed(key, length, now)
  local left = limit - (length - passed)
  if left <= 0 then return 0, 0, first + QUOTA_WINDOW_MS - now end
  redis.call('RPUSH', key, now)
  if passed > 0 then redis.call('LTRIM', key, passed, -1) end
  redis.call('PEXPIRE', key, QUOTA_WINDOW_MS)
  return 1, left - 1, first + QUOTA_WINDOW_MS - now
end
