-- @include lib/ready
-- @include lib/batch
-- What `delayed` holds of work that is over: of a batch that was cancelled or has expired, of a round before the last, of tasks that were cancelled, of
-- notifications whose batch was deleted. Its time may be years away, and until then it would take memory. Who ends such work does not look for it; he leaves
-- a mark, `stale` in `m`, the time of the first one. A while later ticks begin to look through `delayed`, a part at a time, from its end: what leaves it when it
-- is due leaves in front and moves nobody, and what comes meanwhile only has some looked at twice. `scan` in `m` is how far they are: `<not before, ms> <rank>`.
local STALE_LOOK, STALE_AFTER_MS, STALE_PAUSE_MS = 200, 1000, 100
local stale = { entries = {} }

local function entry_is_stale(entry)
  local b = batch_load(entry.core)
  if not b or not batch_live(b) or round_entry_stale(b, entry) then return true end
  local tasks = entry.to - entry.from + 1
  return b.x >= tasks and call('GETRANGE', b.key .. ':s', entry.from, entry.to) == string.rep('x', tasks)
end

-- A time that is ahead of the clock by more than this was written before the clock was set back, and has come.
local function stale_at(at_ms, wait_ms, now) return at_ms > now + wait_ms and now or at_ms end

-- When to look, `mark` and `scan` being what is in `m`, and from which rank on; nil: nothing is to be seen.
local function stale_next(mark, scan, now)
  if scan then
    local at_ms, rank = string.match(scan, '^(%d+) (%d+)$')
    return stale_at(tonumber(at_ms), STALE_PAUSE_MS, now), tonumber(rank)
  end
  if mark then return stale_at(tonumber(mark) + STALE_AFTER_MS, STALE_AFTER_MS, now), 0 end
  return nil
end

-- Looks, where it is time to; returns when to go on, or nil.
local function stale_plan(mark, scan, now)
  local at_ms, rank = stale_next(mark, scan, now)
  if not at_ms or at_ms > now then return at_ms end
  local seen = call('ZRANGE', root .. 'delayed', rank, rank + STALE_LOOK - 1, 'REV')
  for _, text in ipairs(seen) do
    if entry_is_stale(entry_read(string.match(text, '|(.*)$'))) then table.insert(stale.entries, text) end
  end
  stale.looked, stale.begun = true, not scan
  if #seen == STALE_LOOK then
    stale.scan = string.format('%.0f %.0f', now + STALE_PAUSE_MS, rank + #seen - #stale.entries)
    return now + STALE_PAUSE_MS
  end
  return scan and mark and stale_next(mark, nil, now) or nil
end

local function stale_write()
  if not stale.looked then return end
  if #stale.entries > 0 then call('ZREM', root .. 'delayed', unpack(stale.entries, 1, #stale.entries)) end
  if stale.begun then call('HDEL', meta, 'stale') end
  if stale.scan then call('HSET', meta, 'scan', stale.scan) else call('HDEL', meta, 'scan') end
end
