-- @include lib/root
-- A schedule: the hash `sched:<core>` of
--   a account   s active or disabled   v version, grows with every change by its owner   t created   u updated (ms)
--   k the tick that is decided next ('' none)   n runs made   i ticks that made none   f last error: `code ms`
--   l scheduled time of the latest run that had come when a tick was last decided
--   z cron expression   w time zone   b, e beginning and end (ms, '' none)
--   y what a run is: t a task, b a batch   g name of the template   lim '1' where it names a limiter
-- All values are short, so that Redis keeps them packed. What may be long is in the hash `sched:<core>:doc`:
--   d the template as it is shown   m plan of its runs, JSON for the ticker
--   t: h its head, an object   p its payload, if any
--   b: c first indexes of its segments   o the batch's document   r `total last_bytes expiration_ms movable hold
--      labels`; segments lie in `sched:<core>:<g>:<first index>`, task keys in `…:k`
-- `schedules` has every schedule with a tick to decide by the time at which it is to be decided.
-- `sched:<core>:runs` has runs by the time they are for: `<y>,<batch core>,<index>,<created ms>,<flags>`;
-- flags: x made by a trigger, l limited, - neither.

local function schedule_load(core, account)
  local key = root .. 'sched:' .. core
  local v = call('HMGET', key, 'a', 's', 'v', 'k', 'y', 'g', 'lim', 'l')
  if not v[1] or (account and v[1] ~= account) then return nil end
  return { core = core, key = key, doc = key .. ':doc', runs = key .. ':runs', a = v[1], s = v[2], v = v[3], k = v[4], y = v[5], g = v[6],
    limited = v[7] == '1', l = v[8] }
end

local function schedule_list(account, status) return root .. 'a:' .. account .. ':sched' .. (status and ':' .. status or '') end

local function schedule_segment(s, number, base) return s.key .. ':' .. number .. ':' .. base end

-- A hint to the tickers: something is to be decided at this time.
local function ring_cron(due_ms)
  if due_ms ~= '' then call('SPUBLISH', root .. 'cron', due_ms) end
end

local function run_read(member)
  local kind, core, index, created_ms, flags = string.match(member, '^(%a),(%w+),(%d+),(%d+),(%S+)$')
  return { kind = kind, core = core, index = tonumber(index), created_ms = tonumber(created_ms), flags = flags }
end
