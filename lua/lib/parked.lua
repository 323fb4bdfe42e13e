-- @include lib/ring
-- Flows whose origin has no room (it is at its cap, or broken) are parked: out of the rings, so that no claim meets them,
-- until a thread says that there is room again. `parked` is the set of their origins, `parked:<origin>` that of
-- `<class>:<account>`. A flow is parked only while it has entries, and what is pushed onto it meanwhile leaves it parked.
local UNPARK_MAX = 200
local parked_new, parked_gone, origins_gone, parked_left = {}, {}, {}, {}

local function park(cls, account, origin)
  local key = root .. 'parked:' .. origin
  parked_new[key] = parked_new[key] or { origin = origin, flows = {} }
  local flows = parked_new[key].flows
  flows[#flows + 1] = cls .. ':' .. account
end

-- Puts the flows of an origin back into the rings; at most UNPARK_MAX of them, the rest stay for the next call.
local function unpark(origin)
  local key = root .. 'parked:' .. origin
  local flows = call('SRANDMEMBER', key, UNPARK_MAX)
  for _, flow in ipairs(flows) do
    local cls, account = string.match(flow, '^(%a):(%w+)$')
    local ring = ring_read(root .. 'ready:' .. cls .. ':' .. account, 48)
    if ring_left(ring) == 0 and ring.whole then ring_put(ring_read(root .. 'ready:' .. cls, 48), account) end
    ring_put(ring, origin)
  end
  if #flows > 0 then parked_gone[#parked_gone + 1] = { key, flows } end
  if #flows < UNPARK_MAX then origins_gone[#origins_gone + 1] = origin else parked_left[#parked_left + 1] = origin end
end

-- Reads `list` from `at`: count, then origins; `*` stands for all.
local function unpark_all(list, at)
  local count = tonumber(list[at])
  for i = 1, count do
    if list[at + i] == '*' then
      local origins = call('SRANDMEMBER', root .. 'parked', UNPARK_MAX)
      for _, origin in ipairs(origins) do unpark(origin) end
      if #origins == UNPARK_MAX then parked_left[#parked_left + 1] = '*' end
    else
      unpark(list[at + i])
    end
  end
  return at + count + 1
end

-- Those of `list` that are not in `other`.
local function without(list, other)
  local there, left = {}, {}
  for _, item in ipairs(other) do there[item] = true end
  for _, item in ipairs(list) do
    if not there[item] then left[#left + 1] = item end
  end
  return left
end

-- Returns the origins that were parked, and those (`*`: some) of which more is left than one call lets go. Most of what is let go is parked
-- again by the same call, with less work in it: that stays as it is.
local function parked_write()
  for _, pair in ipairs(parked_gone) do
    local new = parked_new[pair[1]]
    local gone = without(pair[2], new and new.flows or {})
    if new then new.flows = without(new.flows, pair[2]) end
    if #gone > 0 then call('SREM', pair[1], unpack(gone, 1, #gone)) end
  end
  local origins_new = {}
  for _, new in pairs(parked_new) do origins_new[#origins_new + 1] = new.origin end
  origins_gone = without(origins_gone, origins_new)
  if #origins_gone > 0 then call('SREM', root .. 'parked', unpack(origins_gone, 1, #origins_gone)) end
  local origins = parked_left
  for key, new in pairs(parked_new) do
    if #new.flows > 0 then call('SADD', key, unpack(new.flows, 1, #new.flows)) end
    origins[#origins + 1] = new.origin
  end
  if #origins_new > 0 then call('SADD', root .. 'parked', unpack(origins_new, 1, #origins_new)) end
  return origins
end
