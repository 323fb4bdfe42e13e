-- @include lib/batch
-- @include lib/limited
-- @include lib/operation
-- Tasks put behind those that a batch has. A segment takes up to 1,000 tasks and 1 MiB; a page is one field of it and
-- holds 16 tasks, each as `length (4 bytes) record`. Records are opaque here.
local SEGMENT_TASKS, SEGMENT_BYTES, PAGE_TASKS = 1000, 1048576, 16
local page_writes = {}

local function segment_open(b, first)
  if first == 0 then return end
  b.g = (b.g or struct.pack('>I4', 0)) .. struct.pack('>I4', first)
  b.g_new = true
  b.q = 0
end

-- Plans the pages for `count` records that begin at `parts[at]`; reads the page that is begun. Writes nothing.
local function append_records(b, parts, at, count)
  local base = segment_last(b)
  local page, text, field = nil, nil, nil
  local writes = nil
  for k = 0, count - 1 do
    local i = b.n + k
    local record = parts[at + k]
    if i > base and (i - base >= SEGMENT_TASKS or b.q + #record > SEGMENT_BYTES) then
      if page then writes[#writes + 1] = field; writes[#writes + 1] = table.concat(text) end
      page, writes = nil, nil
      segment_open(b, i)
      base = i
    end
    if not writes then
      writes = { b.key .. ':' .. base }
      page_writes[#page_writes + 1] = writes
    end
    local wanted = math.floor((i - base) / PAGE_TASKS)
    if wanted ~= page then
      if page then writes[#writes + 1] = field; writes[#writes + 1] = table.concat(text) end
      page, field = wanted, string.format('%.0f', wanted)
      text = { (i - base) % PAGE_TASKS > 0 and call('HGET', writes[1], field) or '' }
    end
    text[#text + 1] = struct.pack('>I4', #record)
    text[#text + 1] = record
    b.q = b.q + #record
  end
  if page then writes[#writes + 1] = field; writes[#writes + 1] = table.concat(text) end
end

-- Records as they lie in pages, cut anew for a first page that has `place` of them.
local function pages_cut(records, place)
  local pages, from, at = {}, 1, 1
  while at <= #records do
    at = at + 4 + struct.unpack('>I4', records, at)
    place = place + 1
    if place == PAGE_TASKS or at > #records then
      pages[#pages + 1] = string.sub(records, from, at - 1)
      from, place = at, 0
    end
  end
  return pages
end

-- The same for `count` pages from `parts[at]` on, which were cut by somebody who expected `place` records in the page that is begun.
-- Whole pages go as they came: of each text that a script makes every byte is hashed. All go to the last segment; a tray has one.
local function append_pages(b, parts, at, count, place)
  local base = segment_last(b)
  local begun = (b.n - base) % PAGE_TASKS
  if begun ~= place then
    parts = pages_cut(table.concat(parts, '', at, at + count - 1), begun)
    at, count = 1, #parts
  end
  local key, first = b.key .. ':' .. base, math.floor((b.n - base) / PAGE_TASKS)
  local writes = { key }
  page_writes[#page_writes + 1] = writes
  for k = 0, count - 1 do
    local field = string.format('%d', first + k)
    writes[#writes + 1] = field
    writes[#writes + 1] = k == 0 and begun > 0 and call('HGET', key, field) .. parts[at] or parts[at + k]
  end
end

-- Where records of a batch go is kept beside them, in the map of their segment, for a round to read; trays have no rounds.
local maps = {}

local function map_run(b, from, to, rest)
  while from <= to do
    local base, segment_end = segment_bounds(b, from)
    local last = segment_end >= from and math.min(to, segment_end) or to
    local key = segment_key(b, base)
    maps[key] = maps[key] or { call('HGET', key, 'm') or '' }
    table.insert(maps[key], string.format('%.0f,%.0f,%s;', from - base, last - base, rest))
    from = last + 1
  end
end

-- Queues the runs that begin at `parts[at]`, (from, to, origin, timeout_s, due_ms, limit) each, counted from task `first`.
-- The batch knows of the new tasks and of their segments already.
local function append_runs(b, parts, at, runs, first, now)
  for k = 0, runs - 1 do
    local p = at + k * 6
    local from, to = first + tonumber(parts[p]), first + tonumber(parts[p + 1])
    run_enqueue(b, now, 'f:' .. b.a .. ':' .. parts[p + 2], from, to, tonumber(parts[p + 3]), tonumber(parts[p + 4]), parts[p + 5])
    if #page_writes > 0 and b.s ~= 'tray' then
      map_run(b, from, to, table.concat(parts, ',', p + 2, parts[p + 5] == '' and p + 4 or p + 5))
    end
  end
end

-- What batch_save does not write. `states`: of the new tasks, where they do not wait.
local function append_write(b, count, states)
  for _, writes in ipairs(page_writes) do
    for i = 2, #writes, 1000 do call('HSET', writes[1], unpack(writes, i, math.min(i + 999, #writes))) end
  end
  for key, texts in pairs(maps) do call('HSET', key, 'm', table.concat(texts)) end
  call('APPEND', b.key .. ':s', states or string.rep('q', count))
  b.appended = true
end
