-- @include lib/root
-- Tasks at their last chance: in flight at every death but the last that they may see, so that one of them may be the cause. They stand in
-- one line, so far apart; `suspect` in `m` is the time of the last of them. The end is a minute ahead at most, and those beyond share it.
local SUSPECT_PAUSE_MS, SUSPECTS_MS_MAX = 100, 60000
local suspect_ms = nil

-- The time of the next one, from `from` on. `before` is `suspect` in `m` where that was read.
local function suspect_next(now, from, before)
  suspect_ms = suspect_ms or tonumber(before or call('HGET', meta, 'suspect') or 0)
  suspect_ms = math.max(from, math.min(suspect_ms, now + SUSPECTS_MS_MAX) + SUSPECT_PAUSE_MS)
  return suspect_ms
end

local function suspect_write(now)
  if suspect_ms and suspect_ms > now then call('HSET', meta, 'suspect', suspect_ms) end
end
