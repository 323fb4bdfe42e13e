-- Puts back what leads to keys that exist: a flow with entries is in its ring or parked, a holder's work is watched, messages are
-- seen, what is away is asked about. In a healthy partition it finds nothing to do.
--
-- @flags allow-oom
-- @key   meta      hash    {pN}:m
-- @arg   now_ms    now     this shard's clock
-- @rest  names             keys without their root: `f:<flow>`, `active:<holder>`, `outbox:<destination>`, `away`; and `away <field>`
-- @reply [number, number, number, number, number]   flows, holders, destinations and references that were put back; 1 where references without their time are to be looked for
-- @cost  O(names, and origins of their accounts)
-- @include lib/root

local flows, parked_origins, accounts, watched, sent, since = {}, {}, {}, {}, {}, {}
local search = 0
local function add(list, item) list[#list + 1] = item end

-- A flow is parked or in its account's ring; that ring is in the ring of its class.
local planned = {}
local function look_at_flow(cls, account, origin)
  if call('EXISTS', root .. 'f:' .. cls .. ':' .. account .. ':' .. origin) == 0 then return end
  if call('SISMEMBER', root .. 'parked:' .. origin, cls .. ':' .. account) == 1 then
    if call('SISMEMBER', root .. 'parked', origin) == 0 then add(parked_origins, origin) end
    return
  end
  local ring, above = root .. 'ready:' .. cls .. ':' .. account, root .. 'ready:' .. cls
  local known = call('LPOS', ring, origin)
  if not known then add(flows, { ring, origin }) end
  if not planned[ring] and not call('LPOS', above, account) then
    planned[ring] = true
    add(accounts, { above, account })
  end
end

for _, name in ipairs(names) do
  local cls, account, origin = string.match(name, '^f:(%a):(%w+):([%w*]+)$')
  local holder = string.match(name, '^active:(.+)$')
  local destination = string.match(name, '^outbox:(%d+)$')
  local field = string.match(name, '^away (.+)$')
  if cls then
    look_at_flow(cls, account, origin)
  elseif holder then
    local key = root .. 'holders'
    if call('EXISTS', root .. name) == 1 and call('HEXISTS', key, holder) == 0 then add(watched, holder) end
  elseif destination then
    local first = call('ZRANGE', root .. name, 0, 0, 'WITHSCORES')
    if first[1] and not call('ZSCORE', root .. 'outbox', destination) then add(sent, { first[2], destination }) end
  elseif field then
    if call('HEXISTS', root .. 'away', field) == 1 and not call('ZSCORE', root .. 'away:since', field) then
      add(since, field)
    end
  elseif name == 'away' and call('HLEN', root .. 'away') ~= call('ZCARD', root .. 'away:since') then
    search = 1
  end
end

for _, flow in ipairs(flows) do call('RPUSH', flow[1], flow[2]) end
for _, account in ipairs(accounts) do call('RPUSH', account[1], account[2]) end
for _, origin in ipairs(parked_origins) do call('SADD', root .. 'parked', origin) end
for _, holder in ipairs(watched) do call('HSET', root .. 'holders', holder, now_ms) end
for _, one in ipairs(sent) do call('ZADD', root .. 'outbox', 'NX', one[1], one[2]) end
for _, field in ipairs(since) do call('ZADD', root .. 'away:since', now_ms, field) end
if #flows + #accounts > 0 then call('SPUBLISH', root .. 'bell', '0') end
if #sent > 0 then call('SPUBLISH', root .. 'bell', 'o') end
return { math.max(#flows, #accounts) + #parked_origins, #watched, #sent, #since, search }
