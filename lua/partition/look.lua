-- What waits in a partition, for the operator's gauges. Counts are exact; the oldest is looked for at the heads of the
-- first flows of the first accounts.
--
-- @flags no-writes
-- @key   meta      hash    {pN}:m
-- @arg   kinds     string  letters of the kinds of limiters
-- @arg   now_ms    now     this shard's clock
-- @rest  lanes             limiters of this partition
-- @reply [number, number, number, number, number, number[], number[]]   tasks ready: fresh, retry, notification; entries delayed; age of the oldest that is ready, ms; tasks that wait for limiters of each kind; and for each of the limiters given
-- @cost  O(lanes) and at most 8 accounts of 8 flows of 3 classes
-- @include lib/root

local ACCOUNTS, FLOWS = 8, 8
local oldest_ms = now_ms
local counts = {}
for i, cls in ipairs({ 'f', 'r', 'n' }) do
  counts[i] = math.max(0, tonumber(call('HGET', meta, 'ready:' .. cls) or '0'))
  local accounts = call('LRANGE', root .. 'ready:' .. cls, 0, ACCOUNTS - 1)
  for _, account in ipairs(accounts) do
    for _, origin in ipairs(call('LRANGE', root .. 'ready:' .. cls .. ':' .. account, 0, FLOWS - 1)) do
      local entry = call('LINDEX', root .. 'f:' .. cls .. ':' .. account .. ':' .. origin, 0)
      local due_ms = entry and tonumber(string.match(entry, '(%d+)$'))
      if due_ms and due_ms < oldest_ms then oldest_ms = due_ms end
    end
  end
end
local limited, waiting = {}, {}
for kind in string.gmatch(kinds, '%a') do limited[#limited + 1] = tonumber(call('HGET', meta, 'limited:' .. kind) or '0') end
for i, core in ipairs(lanes) do waiting[i] = tonumber(call('HGET', root .. 'lane:' .. core, 'waiting') or '0') end
return { counts[1], counts[2], counts[3], call('ZCARD', root .. 'delayed'), now_ms - oldest_ms, limited, waiting }
