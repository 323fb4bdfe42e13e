-- What a lane did, counted by the second (61 of them), the minute (61) and the day (31, UTC), for its usage. Fields of `lane:<core>:use`:
--   s<second % 61>  `<second> <granted> <throttled>`
--   m<minute % 61>  `<minute> <granted> <throttled> <most that waited> <that wait since>`
--   d<day % 31>     `<day> <granted> <throttled> <expired>`
-- A slot is taken over by the next time that falls on it, so nothing needs to be cleared. A minute without a slot had no change.
local TALLIES = { { 's', 1000000, 61 }, { 'm', 60000000, 61 }, { 'd', 86400000000, 31 } }

local function tally_text(number) return string.format('%.0f', number) end

-- Counts at a time of this shard's clock (us). What comes after its slot was taken over is left out.
local function tally(lane, at_us, granted, throttled, expired)
  for _, unit in ipairs(TALLIES) do
    local stamp = math.floor(at_us / unit[2])
    local field = unit[1] .. tally_text(stamp % unit[3])
    local slot = lane.tallies[field]
    if not slot or slot.stamp < stamp then
      slot = { stamp = stamp, granted = 0, throttled = 0, expired = 0, unit = unit[1] }
      lane.tallies[field] = slot
    end
    if slot.stamp == stamp then
      slot.granted, slot.throttled, slot.expired = slot.granted + granted, slot.throttled + throttled, slot.expired + expired
    end
  end
end

-- Reads what the slots hold; before the first write.
local function tally_plan(lane)
  tally(lane, lane.now, 0, 0, 0)
  lane.tally_fields = {}
  for field, slot in pairs(lane.tallies) do
    local stamp, granted, throttled, rest, most = nil, 0, 0, 0, 0
    local text = call('HGET', lane.key .. ':use', field)
    if text then stamp, granted, throttled, rest = string.match(text, '^(%d+) (%d+) (%d+) ?(%d*)') end
    stamp = tonumber(stamp or '-1')
    if stamp < slot.stamp then granted, throttled, rest = 0, 0, 0 end
    if stamp <= slot.stamp then
      granted = math.max(0, granted + slot.granted)
      local value = tally_text(slot.stamp) .. ' ' .. tally_text(granted) .. ' ' .. tally_text(throttled + slot.throttled)
      if slot.unit == 'm' then
        most = math.max(tonumber(rest), slot.stamp == math.floor(lane.now / 60000000) and lane.queued_max or 0)
        value = value .. ' ' .. tally_text(most) .. ' ' .. tally_text(lane.waiting)
      elseif slot.unit == 'd' then
        value = value .. ' ' .. tally_text(rest + slot.expired)
      end
      lane.tally_fields[#lane.tally_fields + 1] = field
      lane.tally_fields[#lane.tally_fields + 1] = value
    end
  end
end

local function tally_write(lane)
  call('HSET', lane.key .. ':use', unpack(lane.tally_fields, 1, #lane.tally_fields))
end
