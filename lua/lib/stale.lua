-- @include lib/ready
-- @include lib/batch
-- What `delayed` holds of work that is over: of a batch that was cancelled or has expired, of a round before the last, of tasks that were cancelled.
-- Its time may be years away, and until then it would take memory. Who ends such work does not look for it; he leaves the mark `stale` in `m`, and
-- from then on each tick looks through a part of `delayed`, until it has seen all that was in it. How far it is stands in `scan`: `<not before, ms> <cursor>`.
local STALE_LOOK, STALE_PAUSE_MS = 200, 100
local stale = { entries = {} }

local function entry_is_stale(entry)
  local b = batch_load(entry.core)
  if not b or not batch_live(b) or round_entry_stale(b, entry) then return true end
  local tasks = entry.to - entry.from + 1
  return b.x >= tasks and call('GETRANGE', b.key .. ':s', entry.from, entry.to) == string.rep('x', tasks)
end

-- `mark` and `scan` as they are in `m`. Returns when to go on; nil: nothing is left to be seen.
local function stale_plan(mark, scan, now)
  if not mark and not scan then return nil end
  local at_ms, cursor = string.match(scan or '0 0', '^(%d+) (%d+)$')
  if tonumber(at_ms) > now then return tonumber(at_ms) end
  local seen = call('ZSCAN', root .. 'delayed', cursor, 'COUNT', STALE_LOOK)
  for i = 1, #seen[2], 2 do
    local text = seen[2][i]
    if entry_is_stale(entry_read(string.match(text, '|(.*)$'))) then table.insert(stale.entries, text) end
  end
  stale.begun = not scan
  stale.next_ms = now + STALE_PAUSE_MS
  stale.scan = seen[1] ~= '0' and string.format('%.0f ', stale.next_ms) .. seen[1] or ''
  return stale.scan ~= '' and stale.next_ms or nil
end

local function stale_write()
  if not stale.scan then return end
  for i = 1, #stale.entries, 1000 do
    call('ZREM', root .. 'delayed', unpack(stale.entries, i, math.min(i + 999, #stale.entries)))
  end
  if stale.begun then call('HDEL', meta, 'stale') end
  if stale.scan == '' then call('HDEL', meta, 'scan') else call('HSET', meta, 'scan', stale.scan) end
end
