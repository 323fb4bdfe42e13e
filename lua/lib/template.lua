-- @include lib/schedule
-- The segments of a batch template on their way from staged names to their own.
local template = nil

-- `parts` begin with the segments' first indexes and the task keys; returns where the fields behind them begin, nil where
-- a staged segment is gone.
local function template_plan(s, number, list)
  template = { names = {}, keys_at = 0, keyed = 0 }
  local segments = tonumber(list[1])
  for i = 2, 1 + segments do
    local from = schedule_segment(s, '+' .. number, list[i])
    if call('EXISTS', from) == 0 then return nil end
    template.names[#template.names + 1] = { from, schedule_segment(s, number, list[i]) }
  end
  template.keys_at = 2 + segments
  template.keyed = tonumber(list[template.keys_at])
  template.keys_name = schedule_segment(s, number, 'k')
  template.list = list
  return template.keys_at + template.keyed + 1
end

local function template_touch()
  local list = { template.keys_name }
  for _, pair in ipairs(template.names) do list[#list + 1] = pair[2] end
  touch(list)
end

local function template_write()
  for _, pair in ipairs(template.names) do
    call('RENAME', pair[1], pair[2])
    call('PERSIST', pair[2])
  end
  for i = template.keys_at + 1, template.keys_at + template.keyed, 1000 do
    call('SADD', template.keys_name, unpack(template.list, i, math.min(i + 999, template.keys_at + template.keyed)))
  end
end

-- All keys of a template that is no longer used.
local function template_keys(s)
  local list = { schedule_segment(s, s.g, 'k') }
  for base in string.gmatch(s.c or '', '%d+') do list[#list + 1] = schedule_segment(s, s.g, base) end
  return list
end
