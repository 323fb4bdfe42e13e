-- @include lib/ring
-- Ready work. A flow is one account's work for one origin in one class (f fresh, r retry, n notification):
--   ready:<class>                    ring of accounts that have flows in their ring
--   ready:<class>:<account>          ring of that account's flows that have entries and are not parked
--   f:<class>:<account>:<origin>     entries, first in first out
-- An entry is a range of tasks of one batch: `core,from,to,attempts,recoveries,timeout_s,due_ms`; elsewhere it may end in
-- what a rate limiter needs (lib/limited), which never is in a flow.
-- Membership follows from lengths alone: what becomes non-empty is put at the end of the ring above it.
local plans, plans_made = {}, {}
-- Tasks in the queues by class, changed in this script; kept in `m` as `ready:<class>`, for the operator's gauges.
local depth = { f = 0, r = 0, n = 0 }

-- `flow` is `<class>:<account>:<origin>`.
local function ready_push(flow, entry)
  local plan = plans[flow]
  if not plan then
    local cls, account, origin = string.match(flow, '^(%a):(%w+):([%w*]+)$')
    plan = { key = root .. 'f:' .. flow, flows = root .. 'ready:' .. cls .. ':' .. account, accounts = root .. 'ready:' .. cls,
      account = account, origin = origin, entries = {} }
    plans[flow] = plan
    plans_made[#plans_made + 1] = plan
  end
  plan.entries[#plan.entries + 1] = entry
  local from, to = string.match(entry, '^%w+,(%d+),(%d+)')
  local cls = string.sub(flow, 1, 1)
  depth[cls] = depth[cls] + to - from + 1
end

local function depth_write()
  for cls, change in pairs(depth) do
    if change ~= 0 then call('HINCRBY', meta, 'ready:' .. cls, change) end
  end
end

local function ready_write()
  for _, plan in ipairs(plans_made) do
    local length = 0
    for i = 1, #plan.entries, 1000 do
      length = call('RPUSH', plan.key, unpack(plan.entries, i, math.min(i + 999, #plan.entries)))
    end
    if length == #plan.entries + ring_taken(plan.key) and call('RPUSH', plan.flows, plan.origin) == 1 + ring_taken(plan.flows) then
      call('RPUSH', plan.accounts, plan.account)
    end
  end
  depth_write()
end

local function entry_of(core, from, to, attempts, recoveries, timeout_s, due_ms, limit)
  return string.format('%s,%d,%d,%d,%d,%d,%d%s', core, from, to, attempts, recoveries, timeout_s, due_ms, limit or '')
end

local function entry_read(entry)
  local core, from, to, attempts, recoveries, timeout_s, due_ms, limit =
    string.match(entry, '^(%w+),(%d+),(%d+),(%d+),(%d+),(%d+),(%d+)(.*)$')
  return { core = core, from = tonumber(from), to = tonumber(to), attempts = tonumber(attempts),
    recoveries = tonumber(recoveries), timeout_s = tonumber(timeout_s), due_ms = tonumber(due_ms), limit = limit }
end

-- What is in flight is named in `active:<holder>` by all that is needed to queue it again:
-- `core,from,to,attempt,recoveries,timeout_s,flow`, then what a limiter needs. Tasks that start for the first time share one name as a range; each
-- later start has a name of its own. So a byte `p` (first start) belongs to one range for ever, and a byte `P` (a later
-- start) to one name at a time: whoever is asked about a range finds in the bytes what is still in flight of it.
local function member_of(core, from, to, attempt, recoveries, timeout_s, flow, limit)
  return string.format('%s,%d,%d,%d,%d,%d,%s%s', core, from, to, attempt, recoveries, timeout_s, flow, limit)
end

local function member_read(member)
  local core, from, to, attempt, recoveries, timeout_s, flow, limit =
    string.match(member, '^(%w+),(%d+),(%d+),(%d+),(%d+),(%d+),(%a:%w+:[%w*]+)(.*)$')
  if not core then return nil end
  return { core = core, from = tonumber(from), to = tonumber(to), attempt = tonumber(attempt), recoveries = tonumber(recoveries),
    timeout_s = tonumber(timeout_s), flow = flow, limit = limit }
end

-- The pattern of a byte that is in flight under this name.
local function member_byte(ref) return ref.from == ref.to and '[pP]' or 'p' end

-- The same account and origin in another class; notifications keep theirs.
local function flow_as(cls, flow) return string.byte(flow) == 110 and flow or cls .. string.sub(flow, 2) end
