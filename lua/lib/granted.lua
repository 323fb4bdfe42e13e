-- @include lib/root
-- Changes to `granted`: see lib/limited.
local granted_new, granted_gone = {}, {}

local function granted_add(until_ms, text)
  granted_new[#granted_new + 1] = until_ms
  granted_new[#granted_new + 1] = text
end

local function granted_take(text) granted_gone[#granted_gone + 1] = text end

local function granted_write()
  for i = 1, #granted_new, 1000 do call('ZADD', root .. 'granted', unpack(granted_new, i, math.min(i + 999, #granted_new))) end
  for i = 1, #granted_gone, 1000 do call('ZREM', root .. 'granted', unpack(granted_gone, i, math.min(i + 999, #granted_gone))) end
end
