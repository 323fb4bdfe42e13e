-- @include lib/schedule
-- The segments of a batch template on their way from staged names to their own.
local incoming = nil

-- `list` is: segments: count, then each one's first index; task keys: count, then each; fields of the schedule's hash:
-- count of values, then field, value …; then those of its document, all of them or none. False where a staged segment is gone.
local function template_plan(s, number, list)
  incoming = { names = {}, keys_at = 0, keyed = 0 }
  local segments = tonumber(list[1])
  for i = 2, 1 + segments do
    local from = schedule_segment(s, '+' .. number, list[i])
    if call('EXISTS', from) == 0 then return false end
    incoming.names[#incoming.names + 1] = { from, schedule_segment(s, number, list[i]) }
  end
  incoming.keys_at = 2 + segments
  incoming.keyed = tonumber(list[incoming.keys_at])
  incoming.keys_name = schedule_segment(s, number, 'k')
  incoming.list, incoming.s = list, s
  return true
end

local function template_write()
  for _, pair in ipairs(incoming.names) do
    call('RENAME', pair[1], pair[2])
    call('PERSIST', pair[2])
  end
  for i = incoming.keys_at + 1, incoming.keys_at + incoming.keyed, 1000 do
    call('SADD', incoming.keys_name, unpack(incoming.list, i, math.min(i + 999, incoming.keys_at + incoming.keyed)))
  end
  local fields_at = incoming.keys_at + incoming.keyed + 1
  local doc_at = fields_at + 1 + tonumber(incoming.list[fields_at])
  if doc_at > fields_at + 1 then call('HSET', incoming.s.key, unpack(incoming.list, fields_at + 1, doc_at - 1)) end
  if #incoming.list >= doc_at then
    call('DEL', incoming.s.doc)
    call('HSET', incoming.s.doc, unpack(incoming.list, doc_at, #incoming.list))
  end
end

-- All keys of a template that is no longer used.
local function template_keys(s)
  local list = { schedule_segment(s, s.g, 'k') }
  for base in string.gmatch(call('HGET', s.doc, 'c') or '', '%d+') do list[#list + 1] = schedule_segment(s, s.g, base) end
  return list
end
