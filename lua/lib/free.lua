-- @include lib/ready
-- An express says that it is free: `free` in `m` is its name, the number of its next claim and its `grace_ms`, or empty once that was taken. The next single task that is ready at once is what that
-- claim brings: it is in flight from the start and is handed over on a channel. Where that is lost, the claim of that number brings it.
local FREE_BYTES_MAX = 16384
local free = nil

-- Whether somebody is free for task `index` of a batch, which waits for nothing; its state is `p` then.
local function free_plan(b, base, index, record, origin, timeout_s, due_ms)
  if #record > FREE_BYTES_MAX then return false end
  local text = call('HGET', meta, 'free')
  if not text then return false end
  local holder, number, grace_ms = string.match(text, '^(%S+) (%d+) (%d+)')
  if not holder then return false end
  -- What waits already comes first.
  if call('EXISTS', root .. 'f:f:' .. b.a .. ':' .. origin) == 1 then return false end
  free = { b = b, base = base, index = index, record = record, holder = holder, number = number, grace_ms = tonumber(grace_ms), due_ms = due_ms,
    timeout_s = timeout_s, member = member_of(b.core, index, index, 1, 0, timeout_s, 'f:' .. b.a .. ':' .. origin, '') }
  b.r = b.r + 1
  return true
end

local function free_write(now)
  if not free then return end
  local b, holder = free.b, free.holder
  -- Redis prints a number with 17 digits, which takes longer than to write it.
  local now_text, due_text = string.format('%d', now), string.format('%d', free.due_ms)
  call('ZADD', root .. 'active:' .. holder, string.format('%d', now + free.timeout_s * 1000 + free.grace_ms), free.member)
  call('HSET', root .. 'claims', holder, free.number .. ' ' .. free.member .. '@' .. due_text)
  -- It has called, as far as others are to know: a mark of a while ago would have it taken for silent. Nobody is rung to look after it: where its thread dies its process tells
  -- the owner, where that dies there is another owner, and both look. A bell would wake a thread right when this one has to be called.
  local alone = call('HSET', root .. 'holders', holder, now_text) == 1 and call('HLEN', root .. 'holders') == 1
  if alone then call('HSET', meta, 'free', '', 'last', now_text) else call('HSET', meta, 'free', '') end
  call('SPUBLISH', root .. 'handed', string.format('%s %s %s %s %s %d %d %s\n', holder, free.number, now_text, due_text, b.a, free.index, free.base,
    free.member) .. free.record)
end
