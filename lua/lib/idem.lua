-- @include lib/root
-- An idempotency record: written by the script that does the work, so there is no state between "done" and "known".
-- `idem:<account>:<hash of key>` holds f fingerprint of the request, r the script's reply, x what else the answer needs.
-- Work on a resource that exists also claims the key in the key's own partition; see idem/begin.
-- A script that includes this takes idem_key ('' = none), idem_print and idem_extra.
local IDEM_KEEP_MS = 86400000

-- By a finished request, or by another one that only claimed it.
local function idem_taken()
  if idem_key == '' then return false end
  local record = call('HMGET', root .. 'idem:' .. idem_key, 'f', 'r')
  return record[2] ~= false or (record[1] ~= false and record[1] ~= idem_print)
end

local function idem_write(reply)
  if idem_key == '' then return end
  local key = root .. 'idem:' .. idem_key
  call('HSET', key, 'f', idem_print, 'x', idem_extra, 'r', table.concat(reply, ','))
  call('PEXPIRE', key, IDEM_KEEP_MS)
end
