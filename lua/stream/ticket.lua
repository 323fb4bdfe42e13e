-- Writes a ticket: for half a minute it opens one stream of this batch, in the place of a token.
--
-- @flags allow-oom
-- @key   meta      hash    {pN}:m
-- @arg   core      string  the batch
-- @arg   account   string  account id
-- @arg   token     string  hash of the token that it is made with, '' where that always holds
-- @arg   ticket    string  the ticket, hashed
-- @arg   ttl_ms    int     how long it is good
-- @arg   now_ms    now     this shard's clock
-- @reply number            when it ends, ms; 0 where the account has no such batch
-- @cost  O(1)
-- @include lib/root

local key = root .. 'b:' .. core
local owner = call('HMGET', key, 'a', 's')
if owner[1] ~= account or owner[2] == 'tray' or owner[2] == 'deleted' then return 0 end
call('SET', key .. ':ticket:' .. ticket, token == '' and account or account .. ' ' .. token, 'PX', ttl_ms)
return now_ms + ttl_ms
