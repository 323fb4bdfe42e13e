-- @include lib/root
-- A batch in memory: loaded once a script, changed, saved once. Fields of the hash `b:<core>`:
--   a account   s status, or `tray`, or `notes`   n total  c completed  f failed  x cancelled  r running (counts of tasks)
--   v change number   t created   u updated   e expires ('' = never)   z finished   (ms)
--   p when its first task began (ms; absent: none has)
--   g first index of each segment, 4 bytes each (absent: one segment at 0)   q bytes in the last segment
--   l hashes of its labels, 10 characters each (absent: none)
--   h '1' while it is held open   w '1' where the expiry moves with the latest execute_after   d document, opaque JSON
--   N which notifications it sends, see lib/notify (absent: none)
--   k rounds after its first (absent: none)   o what a round has not reached, see lib/round   y see batch/sweep
--   W who watches: `<ms until which> <the same for its tasks> <number of the last hint>`; see batch_tell, stream/look
-- total = pending + c + f + x holds by construction: pending is never stored.
local batches, batches_loaded = {}, {}

local function batch_load(core)
  local b = batches[core]
  if b ~= nil then return b end
  local key = root .. 'b:' .. core
  local v = call('HMGET', key, 'a', 's', 'n', 'c', 'f', 'x', 'r', 'v', 't', 'e', 'z', 'g', 'q', 'w', 'h', 'k', 'o', 'N', 'W')
  if not v[1] then
    batches[core] = false
    return false
  end
  b = { core = core, key = key, a = v[1], s = v[2], s_was = v[2], n = tonumber(v[3]), c = tonumber(v[4]), f = tonumber(v[5]),
    x = tonumber(v[6]), r = tonumber(v[7]), v = tonumber(v[8]), t = tonumber(v[9]), e = tonumber(v[10]), z = tonumber(v[11]),
    g = v[12], q = tonumber(v[13] or '0'), w = v[14], h = v[15], k = tonumber(v[16] or '0'), W = v[19], dirty = false, was = v }
  if v[17] then
    b.o_from, b.o_to = string.match(v[17], '^(%d+),(%d+)$')
    b.o_from, b.o_to = tonumber(b.o_from), tonumber(b.o_to)
  end
  if v[18] then b.N, b.n_was, b.c_was, b.f_was, b.x_was = v[18], b.n, b.c, b.f, b.x end
  batches[core] = b
  batches_loaded[#batches_loaded + 1] = b
  return b
end

-- The batch where callers may see it: the account's own, no tray, no companion, not on its way out.
local function batch_visible(core, account)
  local b = batch_load(core)
  if not b or b.a ~= account or b.s == 'tray' or b.s == 'notes' or b.s == 'deleted' then return nil end
  return b
end

local function batch_live(b) return b.s == 'pending' or b.s == 'processing' or b.s == 'tray' or b.s == 'notes' end

local function batch_waiting(b) return b.n - b.c - b.f - b.x - b.r end

-- A new round counts attempts from here on, so what is left in the queues of an earlier one is known by its attempts, and
-- no name in flight is used twice. More attempts than a task can have: 25 retries and a few recoveries.
local ROUND_ATTEMPTS = 100

local function attempts_first(b) return b.k * ROUND_ATTEMPTS end

local function round_entry_stale(b, entry) return math.floor(entry.attempts / ROUND_ATTEMPTS) ~= b.k end

-- Whether the byte of task `i` says that it waits, in a batch that is live. What a round has not reached waits for it.
local function task_waits(b, i, byte)
  if byte == 'q' or byte == 'r' then return true end
  return (byte == 'f' or byte == 'e') and b.o_from ~= nil and i >= b.o_from and i <= b.o_to
end

-- First and last index of the segment that holds task `i`.
local function segment_bounds(b, i)
  local g = b.g
  if not g then return 0, b.n - 1 end
  local lo, last = 0, #g / 4 - 1
  local hi = last
  while lo < hi do
    local mid = math.ceil((lo + hi) / 2)
    if struct.unpack('>I4', g, mid * 4 + 1) <= i then lo = mid else hi = mid - 1 end
  end
  local base = struct.unpack('>I4', g, lo * 4 + 1)
  return base, lo < last and struct.unpack('>I4', g, lo * 4 + 5) - 1 or b.n - 1
end

local function segment_key(b, base) return b.key .. ':' .. string.format('%d', base) end

local function segment_last(b)
  if not b.g then return 0 end
  return struct.unpack('>I4', b.g, #b.g - 3)
end

-- After counters changed: ends the batch where nothing is left to finish. `keep_ms` is how long a finished one stays.
local function batch_end(b, now, keep_ms)
  b.dirty = true
  if b.n > b.c + b.f + b.x or b.s == 'notes' then return false end
  if b.s == 'tray' then
    b.deadline = math.max(now, b.t + 1000) + keep_ms
    return true
  end
  if b.z or (b.h and batch_live(b)) then return false end
  if b.s == 'pending' or b.s == 'processing' then
    b.s = b.f > 0 and 'failed' or b.c > 0 and 'completed' or 'cancelled'
  end
  b.z = now
  b.ended = true
  b.deadline = now + keep_ms
  return true
end

-- Everything not running is over at once, whatever its number: the state bytes of what waits are read by the batch's status.
local function batch_stop(b, status, now, keep_ms)
  local waiting = batch_waiting(b)
  if status == 'expired' then b.f = b.f + waiting else b.x = b.x + waiting end
  b.s = status
  b.stale = waiting > 0
  b.deadline = '' -- leaves the deadlines until its last running task has finished
  batch_end(b, now, keep_ms)
end

local function list_key(b, status)
  return root .. 'a:' .. b.a .. ':b' .. (status and ':' .. status or '')
end

-- The lists of an account's batches by label, for hashes as in field `l`.
local function label_keys(account, labels)
  local list = {}
  for hash in string.gmatch(labels, '%w%w%w%w%w%w%w%w%w%w') do list[#list + 1] = root .. 'a:' .. account .. ':l:' .. hash end
  return list
end

-- Keeps for the watchers which tasks have ended, and how: `c`, `f` or `x`.
local function batch_ended(b, from, tasks, byte)
  if not b.W or byte == 'r' then return end
  b.told = b.told or {}
  b.told[#b.told + 1] = byte .. from .. '+' .. tasks
end

-- While somebody watches, tells how the batch stands: number of this hint, s n c f x r u z, and the tasks that ended.
-- Hints are numbered without a gap, so that a lost one is missed; a batch that nobody watches pays one field of a read.
local function batch_tell(b, now)
  local till, tasks_till, number = string.match(b.W, '^(%d+) (%d+) (%d+)$')
  if now >= tonumber(till) then return end
  number = string.format('%d', number + 1)
  call('HSET', b.key, 'W', till .. ' ' .. tasks_till .. ' ' .. number)
  call('SPUBLISH', root .. 'progress:' .. b.core, string.format('%s %s %d %d %d %d %d %d %d ', number, b.s, b.n, b.c, b.f,
    b.x, b.r, now, b.z or 0) .. (now < tonumber(tasks_till) and b.told and table.concat(b.told, ',') or ''))
end

local COUNTS = { 'n', 'c', 'f', 'x', 'r' }
local function batch_field(fields, name, value)
  fields[#fields + 1] = name
  fields[#fields + 1] = value
end

-- What is no longer as it was read, in the order of `batch_load`.
local function batch_changes(b, now)
  local fields = { 'v', string.format('%d', b.v + 1), 'u', string.format('%d', now) }
  local was = b.was
  if not was or b.s ~= was[2] then batch_field(fields, 's', b.s) end
  for at, name in ipairs(COUNTS) do
    -- Redis prints a number with 17 digits, which takes longer than to write it.
    local text = string.format('%d', b[name])
    if not was or text ~= was[at + 2] then batch_field(fields, name, text) end
  end
  return fields
end

local function batch_save(now)
  for _, b in ipairs(batches_loaded) do
    if b.dirty then
      local fields = batch_changes(b, now)
      if b.opened then
        batch_field(fields, 'a', b.a)
        batch_field(fields, 't', b.t)
      end
      if b.appended then batch_field(fields, 'q', string.format('%d', b.q)) end
      if b.g_new then batch_field(fields, 'g', b.g) end
      if b.z then batch_field(fields, 'z', b.z) end
      if b.begun then batch_field(fields, 'p', b.begun) end
      call('HSET', b.key, unpack(fields, 1, #fields))
      if b.s ~= b.s_was then
        call('ZREM', list_key(b, b.s_was), b.core)
        call('ZADD', list_key(b, b.s), b.t, b.core)
      end
      if b.deadline == '' then
        call('ZREM', root .. 'deadlines', b.core)
      elseif b.deadline then
        call('ZADD', root .. 'deadlines', b.deadline, b.core)
      end
      if b.stale then call('HSETNX', meta, 'stale', now) end -- see lib/stale
      if b.W then batch_tell(b, now) end
    end
  end
end
