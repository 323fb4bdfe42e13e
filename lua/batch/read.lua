-- Reads batches for their owners, within the limit on such reads: who each belongs to, the limit and the state in one step.
--
-- @flags allow-oom
-- @key   meta      hash    {pN}:m
-- @arg   limit     int     reads of one batch a minute; 0 = no limit
-- @arg   now_ms    now     this shard's clock
-- @rest  reads             of each batch: its core, account id, how many ask for it, 1 to have the state bytes too
-- @reply [number, number, number, (string | null)[], string][]   of each: how many may have it (-1 missing); left in the window after them; ms until one more is; fields as in BATCH_FIELDS; states
-- @cost  O(batches + those who ask), bounded by the caller; with states O(tasks) bytes copied
-- @include lib/root
-- @include lib/quota

local found = {}
for i = 1, #reads, 4 do
  local key = root .. 'b:' .. reads[i]
  local fields = call('HMGET', key, 'a', 's', 'n', 'c', 'f', 'x', 'r', 't', 'u', 'z', 'd', 'g', 'o', 'h')
  if fields[1] ~= reads[i + 1] or fields[2] == 'tray' or fields[2] == 'deleted' then
    found[#found + 1] = { -1, 0, 0, {}, '' }
  else
    local text = reads[i + 3] == '1' and call('GET', key .. ':s') or ''
    local granted, left, next_ms = quota_plan(key .. ':quota:status', limit, now_ms, tonumber(reads[i + 2]))
    found[#found + 1] = granted == 0 and { 0, left, next_ms, {}, '' } or { granted, left, next_ms, fields, text }
  end
end
quota_write()
return found
