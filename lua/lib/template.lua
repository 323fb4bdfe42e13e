-- @include lib/schedule
-- The segments of a batch template on their way from staged names to their own.
local incoming = nil

-- `parts` begin with the segments' first indexes and the task keys; returns where the fields behind them begin, nil where
-- a staged segment is gone.
local function template_plan(s, number, list)
  incoming = { names = {}, keys_at = 0, keyed = 0 }
  local segments = tonumber(list[1])
  for i = 2, 1 + segments do
    local from = schedule_segment(s, '+' .. number, list[i])
    if call('EXISTS', from) == 0 then return nil end
    incoming.names[#incoming.names + 1] = { from, schedule_segment(s, number, list[i]) }
  end
  incoming.keys_at = 2 + segments
  incoming.keyed = tonumber(list[incoming.keys_at])
  incoming.keys_name = schedule_segment(s, number, 'k')
  incoming.list = list
  return incoming.keys_at + incoming.keyed + 1
end

local function template_touch()
  local list = { incoming.keys_name }
  for _, pair in ipairs(incoming.names) do list[#list + 1] = pair[2] end
  touch(list)
end

local function template_write()
  for _, pair in ipairs(incoming.names) do
    call('RENAME', pair[1], pair[2])
    call('PERSIST', pair[2])
  end
  for i = incoming.keys_at + 1, incoming.keys_at + incoming.keyed, 1000 do
    call('SADD', incoming.keys_name, unpack(incoming.list, i, math.min(i + 999, incoming.keys_at + incoming.keyed)))
  end
end

-- All keys of a template that is no longer used.
local function template_keys(s)
  local list = { schedule_segment(s, s.g, 'k') }
  for base in string.gmatch(s.c or '', '%d+') do list[#list + 1] = schedule_segment(s, s.g, base) end
  return list
end
