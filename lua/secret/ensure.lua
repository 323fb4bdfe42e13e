-- The live signing secrets of an account, newest first; makes the first one where there is none.
--
-- @key   secrets   hash    {hN}:a:<account>:secrets
-- @arg   id        string  id of the secret to make
-- @arg   secret    string  its text
-- @arg   now_ms    now     this shard's clock
-- @reply string[]          of each: id, secret, created ms, expires ms ('' = never)
-- @cost  O(1); at most two are live
local all = redis.call('HGETALL', secrets)
local live = {}
for i = 1, #all, 2 do
  local text, created_ms, expires_ms = string.match(all[i + 1], '^(%S+) (%d+) (%d*)$')
  if expires_ms == '' or tonumber(expires_ms) > now_ms then
    live[#live + 1] = { all[i], text, created_ms, expires_ms }
  end
end
if #live == 0 then
  local created_ms = string.format('%.0f', now_ms)
  redis.call('HSET', secrets, id, secret .. ' ' .. created_ms .. ' ')
  return { id, secret, created_ms, '' }
end
table.sort(live, function(a, b) return tonumber(a[3]) > tonumber(b[3]) end)
local reply = {}
for _, s in ipairs(live) do
  for i = 1, 4 do reply[#reply + 1] = s[i] end
end
return reply
