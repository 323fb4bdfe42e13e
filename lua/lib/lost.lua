-- @include lib/batch
-- @include lib/results
-- Tasks that fail without an attempt of their own: the results that say why, planned and written once.
local lost_results = {}

-- Tasks from..to of a segment get this result.
local function lose(b, from, to, json)
  local base = segment_bounds(b, from)
  local segment = segment_key(b, base)
  lost_results[segment] = lost_results[segment] or {}
  for i = from, to do
    local place = (i - base) % 16
    local field = result_field(i - base)
    local before = lost_results[segment][field] or call('HGET', segment, field) or ''
    lost_results[segment][field] = results_without(before, place) .. result_record(place, json)
  end
end

local function lost_write()
  for segment, fields in pairs(lost_results) do
    for field, text in pairs(fields) do call('HSET', segment, field, text) end
  end
end
