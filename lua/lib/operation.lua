-- @include lib/root
-- What was done under an operation's id, so that a call whose reply was lost can be sent again. It is remembered for 10
-- to 20 s, and a call with all its repetitions takes 2: one hash for each 10 s of the partition, gone as a whole.
local OPERATION_WINDOW_MS, OPERATION_KEPT_MS = 10000, '20000'

local function operation_key(now, back)
  return root .. 'ops:' .. string.format('%d', math.floor(now / OPERATION_WINDOW_MS) - back)
end

-- Where operation `op` put its tasks, when it was done before: batch, first index, time.
local function operation_before(op, now)
  local text = call('HGET', operation_key(now, 0), op) or call('HGET', operation_key(now, 1), op)
  if not text then return nil end
  local core, first, at_ms = string.match(text, '^(%w+) (%d+) (%d+)$')
  return { core = core, first = tonumber(first), at_ms = tonumber(at_ms) }
end

local function operation_write(op, core, first, now)
  local key = operation_key(now, 0)
  call('HSET', key, op, string.format('%s %d %d', core, first, now))
  call('PEXPIRE', key, OPERATION_KEPT_MS, 'NX')
end
