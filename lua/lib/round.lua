-- @include lib/batch
-- @include lib/results
-- Rounds: what failed in a finished batch runs again. A round is begun in one step, whatever the number of its tasks, and
-- then dealt out segment by segment, in order, by the claims that meet its entry in the flow `*`: each takes the runs of
-- a segment's map, makes the bytes of what failed `r` and queues those tasks. What it has not reached is the batch's span
-- `o` (`from,to`): there `f` and `e` are of the round before and say that a task waits, as `q` and `r` do. So the counters
-- are right from the first step on. Entries that an expired batch left in the queues are told by their attempts.

local function round_begin(b, expiration_ms, now)
  b.k = b.k + 1
  b.s = b.c > 0 and 'processing' or 'pending'
  b.z = nil
  -- As long as before, and no sooner than it would have been for a task that is to wait until then.
  b.e = math.max(now, b.e - expiration_ms) + expiration_ms
  b.deadline = b.e
  b.dirty = true
end

local function round_write(b)
  call('HSET', b.key, 'k', b.k, 'e', b.e)
  call('HDEL', b.key, 'z', 'y')
end

local function round_undealt(b, entry) return b.o_from ~= nil and entry.from >= b.o_from and entry.from <= b.o_to end

-- What was dealt out in this script: batches; stretches of state bytes; results by segment and field.
local dealt_batches, dealt_states, dealt_results = {}, {}, {}

-- Takes the results of tasks first..last out of their pages; those of a whole page unseen.
local function results_forget(b, base, first, last)
  local key = segment_key(b, base)
  local fields = dealt_results[key] or {}
  dealt_results[key] = fields
  for page = math.floor((first - base) / 16), math.floor((last - base) / 16) do
    local from, to = math.max(0, first - base - page * 16), math.min(15, last - base - page * 16)
    local field = result_field(page * 16)
    if from == 0 and to == 15 then
      fields[field] = ''
    else
      local text = fields[field] or call('HGET', key, field) or ''
      for place = from, to do
        if #text > 0 then text = results_without(text, place) end
      end
      fields[field] = text
    end
  end
end

-- The stretches of tasks from..to that wait for their round, as pairs (first, last); `states` begins at task `states_from`.
local function round_stretches(states, states_from, from, to)
  local stretches = {}
  for first, after in string.gmatch(string.sub(states, from - states_from + 1, to - states_from + 1), '()[fqre]+()') do
    stretches[#stretches + 1] = { from + first - 1, from + after - 2 }
  end
  return stretches
end

-- Marks a stretch of one segment, which begins at `base`, as queued.
local function round_deal(b, base, first, last)
  dealt_states[#dealt_states + 1] = { b.key .. ':s', first, string.rep('r', last - first + 1) }
  results_forget(b, base, first, last)
end

-- The round has dealt out everything before task `from`; nil: everything.
local function round_reached(b, from)
  dealt_batches[b] = true
  if not from or from > b.o_to then b.o_from, b.o_to = nil, nil else b.o_from = from end
end

local function round_deals_write()
  for _, mark in ipairs(dealt_states) do call('SETRANGE', mark[1], mark[2], mark[3]) end
  for key, fields in pairs(dealt_results) do
    for field, text in pairs(fields) do
      if text == '' then call('HDEL', key, field) else call('HSET', key, field, text) end
    end
  end
  for b in pairs(dealt_batches) do
    if b.o_from then
      call('HSET', b.key, 'o', string.format('%.0f,%.0f', b.o_from, b.o_to))
    else
      call('HDEL', b.key, 'o')
    end
  end
end
