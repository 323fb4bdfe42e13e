-- @include lib/limited
-- @include lib/granted
-- `grant`: a lane lets tasks of a range start. One that is old by now goes back at once, by the lane's own clock.

-- The last of a range was granted. Where earlier grants of it are not used yet, they may also have been lost, in a failover
-- of this side; so what never started is remembered on, as if the lane still held it, and found by the sweep.
local function grant_last(field, entry, now)
  local seq, flow, text = string.match(call('HGET', root .. 'away', field) or '', '^(%d+) ([^|]+)|(.*)$')
  away_forget(field)
  local whole_range = text and entry_read(text)
  if not whole_range or whole_range.from >= entry.from or whole_range.attempts > 0 then return end
  local b = batch_load(entry.core)
  local states = b and batch_live(b) and call('GETRANGE', b.key .. ':s', whole_range.from, entry.from - 1) or ''
  local first = string.find(states, 'q', 1, true)
  if not first then return end
  text = flow .. '|' .. entry_of(entry.core, whole_range.from + first - 1, entry.from - 1, 0, whole_range.recoveries, whole_range.timeout_s,
    whole_range.due_ms, whole_range.limit)
  away_set(away_field(string.match(field, '^%w+'), text), seq .. ' ' .. text, now)
end

kinds.grant = function(body, source_ms, now)
  local lane, place, granted_ms, last, flow, text = string.match(body, '^(%w+) (%d+) (%d+) (%d) ([^|]+)|(.*)$')
  local entry = entry_read(text)
  if last == '1' then grant_last(away_field(lane, body), entry, now) end
  local left_ms = GRANT_MS - math.max(0, source_ms - tonumber(granted_ms))
  local marks = ',' .. place .. ',' .. granted_ms
  if left_ms <= 0 then
    entry.limit = entry.limit .. marks
    return limited_return(now, flow, entry)
  end
  granted_add(now + left_ms, flow .. '|' .. text .. marks)
end
