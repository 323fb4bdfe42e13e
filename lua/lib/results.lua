-- What is known of the last attempt of each task: field `r<page>` of its segment, records of (place in the page, 1 byte;
-- length, 2 bytes; JSON). A page's results share a field as its tasks do; a later attempt's record takes the earlier one's place.
local function results_without_those(text, gone)
  local at, kept = 1, {}
  while at <= #text do
    local of, length = struct.unpack('>BI2', text, at)
    if not gone[of] then kept[#kept + 1] = string.sub(text, at, at + 2 + length) end
    at = at + 3 + length
  end
  return table.concat(kept)
end

local function results_without(text, place) return results_without_those(text, { [place] = true }) end

-- Without the places that `records` has.
local function results_replaced(text, records)
  local at, gone = 1, {}
  while at <= #records do
    local of, length = struct.unpack('>BI2', records, at)
    gone[of] = true
    at = at + 3 + length
  end
  return results_without_those(text, gone)
end

local function result_record(place, json) return struct.pack('>BI2', place, #json) .. json end

local function result_field(local_index) return 'r' .. string.format('%.0f', math.floor(local_index / 16)) end
