-- @include lib/root
-- A list used as a ring, read once, turned in memory, written once: what was taken from the front and what was put
-- back at the end. Elements behind the window that was read keep their place, so nothing overtakes them.
local rings, rings_by_key = {}, {}

local function ring_read(key, window)
  if rings_by_key[key] then return rings_by_key[key] end
  local items = call('LRANGE', key, 0, window - 1)
  local ring = { key = key, items = items, read = #items, head = 1, whole = #items < window or call('LLEN', key) == #items }
  rings[#rings + 1] = ring
  rings_by_key[key] = ring
  return ring
end

-- The first element, or nil where the window is used up.
local function ring_take(ring)
  local item = ring.items[ring.head]
  if item == nil or (ring.head > ring.read and not ring.whole) then return nil end
  ring.head = ring.head + 1
  return item
end

-- What was taken last is the first one again.
local function ring_untake(ring) ring.head = ring.head - 1 end

local function ring_put(ring, item) ring.items[#ring.items + 1] = item end

local function ring_left(ring) return #ring.items - ring.head + 1 end

-- Whether a whole turn brought the list to where it was, as with the only account or flow that has work.
local function ring_came_round(ring)
  if not ring.whole or #ring.items ~= 2 * ring.read or ring.head ~= ring.read + 1 then return false end
  for i = 1, ring.read do
    if ring.items[i] ~= ring.items[ring.read + i] then return false end
  end
  return true
end

-- How many of the elements now in the list were taken and will be trimmed.
local function ring_taken(key)
  local ring = rings_by_key[key]
  return ring and not ring_came_round(ring) and math.min(ring.head - 1, ring.read) or 0
end

-- First what was put back, last the trimming: a list that became empty in between would leave a slot on the move.
local function rings_put()
  for _, ring in ipairs(rings) do
    local from = ring_came_round(ring) and #ring.items + 1 or math.max(ring.head, ring.read + 1)
    for i = from, #ring.items, 1000 do
      call('RPUSH', ring.key, unpack(ring.items, i, math.min(i + 999, #ring.items)))
    end
  end
end

local function rings_trim()
  for _, ring in ipairs(rings) do
    local taken = ring_taken(ring.key)
    if taken > 0 then call('LTRIM', ring.key, taken, -1) end
  end
end
