-- @include lib/batch
-- @include lib/delayed
-- Notifications, written by the script whose change they tell of.
--
-- A batch that wants some has a companion, a batch `<core>n` that nobody sees, made with the first of them. Its tasks are
-- the notifications: they are claimed, sent, retried and recovered as all tasks are, in class `n`.
--
-- Field `N` of the batch: of each event that is wanted `<letter><origin hash, 10 characters><ms>;`, letters p on_progress,
--   f on_finish, s on_success, d on_death, c on_complete; ms: of p the shortest time between two, else empty
-- Hash `b:<core>n`, fields as of a batch: s `notes`, n ever made, c delivered, f given up, x left the log, r under way; no d, e, z, g
--   L index and P due time (ms) of the newest on_progress   D last round that sent on_death
--   T first page that was not looked at for what may leave the log
-- String `b:<core>n:s`, one byte each: q r waits, p P under way, c delivered, f given up, x left the log (its page is gone)
-- Hash `b:<core>n:0`, the only segment: `<page>` 16 records with no head, `r<page>` results as of any task. Of a record:
--   `<letter>,<status>,<n>,<c>,<f>,<x>,<at ms>,<finished ms or nothing>,<round>`
--   and of on_death also `,<task index>,<its result, JSON>`
-- A record does not change once it was claimed: what is sent is made from it and from the batch's document alone.
-- src/store/notes.ts reads and writes the same.
local NOTE_TIMEOUT_S, NOTES_PAGE = 15, 16

-- What is wanted of an event: its origin and interval; nil where nothing is.
local function note_wanted(b, letter)
  if not b.wants then
    b.wants = {}
    for each, origin, ms in string.gmatch(b.N, '(%a)(%w%w%w%w%w%w%w%w%w%w)(%d*);') do
      b.wants[each] = { origin = origin, interval_ms = tonumber(ms) or 0 }
    end
  end
  return b.wants[letter]
end

-- Nearly all of it lies in one function, called for the first batch that sends any: a function costs a script by what it
-- names of what is around it, each time that the script runs, and most batches send none.
local notify = nil

local function notify_use()
  if notify then return notify end
  notify = {}
  local NOTES_WAITING_MAX, NOTES_MERGE_MS, NOTES_KEPT = 10000, 1000, 10000
  local noting = {}

  -- The companion of a batch, and what this script adds to it.
  local function notes_of(b, now)
    if b.notes then return b.notes end
    local core = b.core .. 'n'
    local m = batch_load(core)
    if not m then
      m = { core = core, key = root .. 'b:' .. core, a = b.a, s = 'notes', s_was = 'notes', n = 0, c = 0, f = 0, x = 0, r = 0, v = 0,
        t = now, q = 0, k = 0, opened = true }
      batches[core] = m
      batches_loaded[#batches_loaded + 1] = m
    end
    local v = m.opened and {} or call('HMGET', m.key, 'L', 'P', 'D', 'T')
    b.notes = { b = b, m = m, first = m.n, records = {}, newest = tonumber(v[1]), newest_ms = tonumber(v[2]),
      died = tonumber(v[3] or '0'), page = tonumber(v[4] or '0') }
    noting[#noting + 1] = b.notes
    return b.notes
  end

  local function note_add(b, letter, at, counts)
    local want = note_wanted(b, letter)
    if not want then return nil end
    local notes = notes_of(b, at)
    counts = counts or b
    local record = { letter = letter, origin = want.origin, status = b.s, z = b.z, n = counts.n, c = counts.c, f = counts.f,
      x = counts.x, at = at, due_ms = at, round = b.k + 1, index = notes.m.n }
    notes.m.n = notes.m.n + 1
    notes.m.dirty = true
    notes.records[#notes.records + 1] = record
    return record
  end

  -- The newest on_progress where nobody has begun to send it.
  local function note_open(notes)
    if notes.last or not notes.newest then return notes.last end
    if call('GETRANGE', notes.m.key .. ':s', notes.newest, notes.newest) ~= 'q' then
      notes.newest_began = true
      return nil
    end
    notes.last = { letter = 'p', stored = true, index = notes.newest }
    notes.rewritten = notes.last
    return notes.last
  end

  local function note_progress(b, at, counts)
    local want = note_wanted(b, 'p')
    if not want then return end
    local notes = notes_of(b, at)
    local m = notes.m
    local interval_ms = want.interval_ms
    if m.n - m.c - m.f - m.x >= NOTES_WAITING_MAX then interval_ms = math.max(interval_ms, NOTES_MERGE_MS) end
    local record = interval_ms > 0 and note_open(notes)
    if record then
      record.status, record.z, record.at, record.round = b.s, b.z, at, b.k + 1
      record.n, record.c, record.f, record.x = counts.n, counts.c, counts.f, counts.x
      m.dirty = true
      return
    end
    record = note_add(b, 'p', at, counts)
    if interval_ms > 0 and notes.newest_ms then record.due_ms = math.max(at, notes.newest_ms + interval_ms) end
    notes.last, notes.newest, notes.newest_ms = record, record.index, record.due_ms
  end

  -- The first task of this round that failed for good; `json` is its result.
  local function note_death(b, at, counts, index, json)
    if not note_wanted(b, 'd') then return end
    local notes = notes_of(b, at)
    if notes.died > b.k then return end
    notes.died = b.k + 1
    note_add(b, 'd', at, counts).tail = string.format(',%.0f,', index) .. json()
  end

  -- After the counters of a batch with `N` changed from c, f, x by tasks that ended: one on_progress for each, and on_death
  -- where the first of those that failed, task `index`, is the first. `json` is a function, called where its result is needed.
  function notify.finishes(b, c, f, x, now, index, json)
    while c < b.c or f < b.f or x < b.x do
      if c < b.c then c = c + 1 elseif f < b.f then f = f + 1 else x = x + 1 end
      local counts = { n = b.n, c = c, f = f, x = x }
      note_progress(b, now, counts)
      if index and f > b.f_was then
        note_death(b, now, counts, index, json)
        index = nil
      end
    end
    b.n_was, b.c_was, b.f_was, b.x_was = b.n, b.c, b.f, b.x
  end

  -- A task of an expired batch that had not started: the last ones start last, so it is looked for from the end. What a round
  -- has not reached says as before that it failed.
  local function note_unstarted(b)
    local to = b.n - 1
    if b.o_from then
      local states = call('GETRANGE', b.key .. ':s', b.o_from, math.min(b.o_to, b.o_from + 65535))
      local at = string.find(states, '[fe]')
      if at then return b.o_from + at - 1 end
    end
    while to >= 0 do
      local from = math.max(0, to - 65535)
      local states = call('GETRANGE', b.key .. ':s', from, to)
      local at = string.find(states, 'q', 1, true) or string.find(states, 'r', 1, true)
      if at then return from + at - 1 end
      to = from - 1
    end
    return b.n - 1
  end

  -- The result of task `i` among what came with its group, see partition/settle.
  function notify.result_in(results, base, i)
    local field, place = string.format('r%.0f', math.floor((i - base) / 16)), (i - base) % 16
    for _, result in ipairs(results) do
      local text, at = result[2], 1
      while result[1] == field and at <= #text do
        local of, length = struct.unpack('>BI2', text, at)
        if of == place then return string.sub(text, at + 3, at + 2 + length) end
        at = at + 3 + length
      end
    end
    return ''
  end

  local function note_expired(at)
    return string.format('[%.0f,0,0,null,null,"batch_expired","The batch expired before this task could run."]', at)
  end

  -- Gives what was told with the counters as they are the status too, which is known only now; false where nothing was.
  local function note_settled(b)
    local told = false
    local function settle_one(record)
      if record.n ~= b.n or record.c ~= b.c or record.f ~= b.f or record.x ~= b.x then return end
      record.status, record.z, told = b.s, b.z, true
    end
    if not b.notes then return false end
    for _, record in ipairs(b.notes.records) do settle_one(record) end
    if b.notes.rewritten then settle_one(b.notes.rewritten) end
    return told
  end

  -- What has not been told yet of a batch as this script leaves it.
  local function note_rest(b, now)
    local counted = b.n ~= b.n_was or b.c ~= b.c_was or b.f ~= b.f_was or b.x ~= b.x_was
    -- A release stops nothing: all that is cancelled of what ends by it was told of.
    local stopped = not b.released and b.s ~= b.s_was and (b.s == 'cancelled' or b.s == 'expired')
    if not note_settled(b) and (counted or stopped) then note_progress(b, now, b) end
    if b.s == 'expired' and b.f > b.f_was then
      note_death(b, now, b, note_unstarted(b), function() return note_expired(now) end)
    end
    if b.ended then
      note_add(b, 'f', now)
      if b.s == 'completed' and b.c == b.n then note_add(b, 's', now) end
      note_add(b, 'c', now)
    end
  end

  local function note_text(record)
    local text = string.format('%s,%s,%.0f,%.0f,%.0f,%.0f,%.0f,%s,%.0f', record.letter, record.status, record.n, record.c, record.f,
      record.x, record.at, record.z and string.format('%.0f', record.z) or '', record.round) .. (record.tail or '')
    return struct.pack('>I4I2', #text + 2, 0) .. text
  end

  local function notes_page(notes, page)
    return call('HGET', notes.m.key .. ':0', string.format('%.0f', page)) or ''
  end

  -- A page with one of its records replaced.
  local function note_replaced(text, place, record)
    local at = 1
    for _ = 1, place do at = at + 4 + struct.unpack('>I4', text, at) end
    return string.sub(text, 1, at - 1) .. record .. string.sub(text, at + 4 + struct.unpack('>I4', text, at))
  end

  -- Plans the pages of what is new and queues it: neighbours of one origin and time as one range.
  local function notes_append(notes, now)
    local m, pages = notes.m, {}
    local function page_of(index)
      local page = math.floor(index / NOTES_PAGE)
      pages[page] = pages[page] or { (index < notes.first or notes.first > page * NOTES_PAGE) and notes_page(notes, page) or '' }
      return pages[page]
    end
    local old = notes.rewritten
    if old and old.n then
      local page = page_of(old.index)
      page[1] = note_replaced(page[1], old.index % NOTES_PAGE, note_text(old))
    end
    local run = nil
    local function run_push()
      enqueue(now, run.due_ms, 'n:' .. m.a .. ':' .. run.origin,
        entry_of(m.core, run.from, run.to, 0, 0, NOTE_TIMEOUT_S, run.due_ms))
    end
    for _, record in ipairs(notes.records) do
      local page = page_of(record.index)
      page[#page + 1] = note_text(record)
      if run and run.origin == record.origin and run.due_ms == record.due_ms then
        run.to = record.index
      else
        if run then run_push() end
        run = { from = record.index, to = record.index, origin = record.origin, due_ms = record.due_ms }
      end
    end
    if run then run_push() end
    notes.pages = pages
  end

  -- Pages further back than the newest NOTES_KEPT leave the log where all in them are delivered on_progress.
  local function notes_leave(notes)
    local m = notes.m
    notes.gone = {}
    for _ = 0, #notes.records / NOTES_PAGE + 1 do
      local from = notes.page * NOTES_PAGE
      if m.n - from - NOTES_PAGE < NOTES_KEPT then return end
      if call('GETRANGE', m.key .. ':s', from, from + NOTES_PAGE - 1) == string.rep('c', NOTES_PAGE) then
        local text = notes_page(notes, notes.page)
        local at, all = 1, true
        while at <= #text do
          all = all and string.sub(text, at + 6, at + 6) == 'p'
          at = at + 4 + struct.unpack('>I4', text, at)
        end
        if all then
          notes.gone[#notes.gone + 1] = notes.page
          m.c = m.c - NOTES_PAGE
          m.x = m.x + NOTES_PAGE
        end
      end
      notes.page = notes.page + 1
    end
  end

  -- Of one batch, as this script leaves it.
  notify.rest = note_rest

  function notify.plan(now)
    for _, notes in ipairs(noting) do
      notes_append(notes, now)
      notes_leave(notes)
    end
  end

  function notify.write()
    for _, notes in ipairs(noting) do
      local m = notes.m
      local segment, states = m.key .. ':0', m.key .. ':s'
      call('HSET', m.key, 'D', notes.died, 'T', notes.page)
      if notes.newest then call('HSET', m.key, 'L', notes.newest, 'P', notes.newest_ms) end
      for page, text in pairs(notes.pages) do call('HSET', segment, string.format('%.0f', page), table.concat(text)) end
      if #notes.records > 0 then call('APPEND', states, string.rep('q', #notes.records)) end
      for _, page in ipairs(notes.gone) do
        call('HDEL', segment, string.format('%.0f', page), string.format('r%.0f', page))
        call('SETRANGE', states, page * NOTES_PAGE, string.rep('x', NOTES_PAGE))
      end
    end
  end

  return notify
end

-- The last thing that is planned: counters are as they will be, and batch_end was called.
local function notify_plan(now)
  for _, b in ipairs(batches_loaded) do
    if b.N then notify_use().rest(b, now) end
  end
  if notify then notify.plan(now) end
end

local function notify_write()
  if notify then notify.write() end
end
