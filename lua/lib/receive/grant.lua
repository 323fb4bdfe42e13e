-- @include lib/limited
-- @include lib/granted
-- `grant`: a lane lets tasks of a range start. One that is old by now, or was granted before that clock was set back, goes back at once,
-- by the lane's own clock.

-- What `away` says of a range moves on with its grants.
local function grant_away(field, entry, to, now)
  local seq, flow, text = string.match(away_get(field) or '', '^(%d+) ([^|]+)|(.*)$')
  local held = text and entry_read(text)
  if entry.to == to then
    away_forget(field)
  elseif held and held.from <= entry.to then
    away_set(field, seq .. ' ' .. flow .. '|' .. entry_of(held.core, entry.to + 1, held.to, held.attempts, held.recoveries, held.timeout_s,
      held.due_ms, held.limit), now)
  end
  limited_lost(string.match(field, '^%w+'), seq, flow, held, entry.from, now)
end

kinds.grant = function(body, source_ms, now, unsure_ms)
  local lane, place, granted_ms, life_ms, to, flow, text = string.match(body, '^(%w+) (%d+) (%d+) (%d+) (%d+) ([^|]+)|(.*)$')
  local entry = entry_read(text)
  grant_away(lane .. ' ' .. entry.core .. ',' .. to .. ',' .. whole(entry.attempts), entry, tonumber(to), now)
  -- By the least that the sender's clock can be it starts, which is never too early then; by the most it may start no more.
  life_ms = math.max(0, life_ms - math.ceil(unsure_ms))
  -- Of one that was granted ahead of its time more than all.
  local left_ms = life_ms - (source_ms - tonumber(granted_ms))
  local marks = string.format(',%s,%s,%.0f', place, granted_ms, life_ms)
  if left_ms <= 0 or left_ms > life_ms + GRANT_AHEAD_MS_MAX then
    entry.limit = entry.limit .. marks
    return limited_return(now, flow, entry)
  end
  -- To the us: what it is late by a ms it is nearer to what comes an interval later.
  granted_add(string.format('%.3f', now_us / 1000 + left_ms), flow .. '|' .. text .. marks)
end
