-- @include lib/batch
-- Where a batch must stand besides its own keys: the lists of its account, and `deadlines` by what comes next.

-- Its time in `deadlines`, nil where it has none.
local function place_due(b, now, keep_ms, tray_keep_ms)
  local over = b.n == b.c + b.f + b.x
  if b.s == 'notes' then return nil end
  if b.s == 'tray' then return over and math.max(now, b.t + 1000) + tray_keep_ms or nil end
  if batch_live(b) then return b.e end
  return b.z and over and b.z + keep_ms or nil
end

-- Whether its place in `deadlines` is missing. The end of what is over may have been put off, the end of what lives may not.
local function place_due_lost(b, due_ms)
  if not due_ms then return false end
  local at_ms = tonumber(call('ZSCORE', root .. 'deadlines', b.core))
  return not at_ms or (b.s ~= 'tray' and batch_live(b) and at_ms ~= due_ms)
end

-- Lists that should have it and do not, and lists of other statuses that have it.
local function places_lost(b)
  if b.s == 'notes' or b.s == 'tray' then return {}, {} end
  local lost, strange = {}, {}
  local own = label_keys(b.a, call('HGET', b.key, 'l') or '')
  own[#own + 1] = list_key(b)
  own[#own + 1] = list_key(b, b.s)
  for _, key in ipairs(own) do
    if tonumber(call('ZSCORE', key, b.core)) ~= b.t then lost[#lost + 1] = key end
  end
  for _, status in ipairs({ 'pending', 'processing', 'completed', 'failed', 'expired', 'cancelled' }) do
    if status ~= b.s and call('ZSCORE', list_key(b, status), b.core) then strange[#strange + 1] = list_key(b, status) end
  end
  return lost, strange
end
