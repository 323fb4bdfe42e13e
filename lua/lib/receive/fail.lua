-- @include lib/limited
-- @include lib/lost
-- @include lib/notify
-- `fail`: a range waited for its limiter for too long. What still waits of it ends so, never having run.
local FAILURES = {
  queue_timeout = 'The task waited longer for its rate limiter than queue_timeout allows.',
  validity_timeout = 'The task became older than validity_timeout of its rate limiter allows.',
  expired = 'valid_until passed before the task could start.',
}
local failed_states, failed_tasks = {}, {}
-- Tasks that messages of this call have ended; beyond a bound the rest of the messages waits for the next call.
local failed_count = 0

kinds.fail = function(body, _, now)
  local lane, code, text = string.match(body, '^(%w+) ([%w_]+) [^|]+|(.*)$')
  local entry = entry_read(text)
  local field = away_field(lane, body)
  local seq, flow, before = string.match(away_get(field) or '', '^(%d+) ([^|]+)|(.*)$')
  away_forget(field)
  limited_lost(lane, seq, flow, before and entry_read(before), entry.from, now)
  local b = batch_load(entry.core)
  local json = string.format('[%.0f,%.0f,%.0f,null,null,"%s","%s"]', now, entry.attempts % ROUND_ATTEMPTS, entry.recoveries, code, FAILURES[code] or code)
  local states = limited_states(b, entry)
  if states == '' then return end
  local first = nil
  local f_was = b.f
  for at in string.gmatch(states, '()[qr]') do
    local i = entry.from + at - 1
    local name = entry.core .. ',' .. i
    -- A range may have waited twice, and both of it may come in one call.
    if not failed_tasks[name] then
      failed_tasks[name] = true
      failed_count = failed_count + 1
      b.f = b.f + 1
      first = first or i
      batch_ended(b, i, 1, 'f')
      lose(b, i, i, json)
      failed_states[#failed_states + 1] = { b.key .. ':s', i, 'f' }
    end
  end
  if b.N and first then notify_use().finishes(b, b.c, f_was, b.x, now, first, function() return json end) end
  batch_end(b, now, b.s == 'tray' and tray_keep_ms or keep_ms)
end

local function failed_write()
  for _, s in ipairs(failed_states) do call('SETRANGE', s[1], s[2], s[3]) end
end
