-- Gives up a claim of idem/begin whose work was refused: nothing came of it that a repeat could be answered with. Where nobody knows what came of it,
-- it stays, and the work is no longer under way.
--
-- @key   meta        hash    {pN}:m, of the key's own partition
-- @arg   idem_key    string  `<account>:<hash of key>`
-- @arg   idem_print  string  fingerprint of the request
-- @arg   begun_ms    int     when that was begun; one that was taken over since is not given up
-- @arg   keep        int     1: it stays
-- @reply number              1 where the key is free now; 0 where it holds another request, another's claim, or an answer
-- @cost  O(1)
-- @include lib/root

local key = root .. 'idem:' .. idem_key
local record = call('HMGET', key, 'f', 'r', 'b')
if record[2] or (record[1] and record[1] ~= idem_print) or (record[3] and tonumber(record[3]) ~= begun_ms) then return 0 end
if keep == 1 then call('HSET', key, 'b', 0) else call('DEL', key) end
return 1
