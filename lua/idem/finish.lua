-- Keeps the answer of work that was claimed by idem/begin; the first one stays.
--
-- @key   meta        hash    {pN}:m, of the key's own partition
-- @arg   idem_key    string  `<account>:<hash of key>`
-- @arg   idem_print  string  fingerprint of the request
-- @arg   answer      bytes   the body that was answered
-- @reply number              1; 0 where the key is another request's by now
-- @cost  O(1)
-- @include lib/root

local key = root .. 'idem:' .. idem_key
local holder = call('HGET', key, 'f')
if holder and holder ~= idem_print then return 0 end
call('HSETNX', key, 'f', idem_print)
call('HSETNX', key, 'r', answer)
call('PEXPIRE', key, 86400000)
return 1
