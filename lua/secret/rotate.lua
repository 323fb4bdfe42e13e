-- Gives an account a new signing secret; the one before stays valid for a while, older ones end at once.
-- A repeated call (the reply was lost) changes nothing and answers as the first, or the one before would be cut short.
--
-- @key   secrets   hash    {hN}:a:<account>:secrets
-- @arg   id        string  id of the new secret
-- @arg   secret    string  its text
-- @arg   overlap_ms int    how long the one before stays valid
-- @arg   now_ms    now     this shard's clock
-- @reply string[]          of each: id, secret, created ms, expires ms ('' = never); newest first
-- @cost  O(1)
local all = redis.call('HGETALL', secrets)
local newest, newest_ms, made_before, others = nil, -1, nil, {}
for i = 1, #all, 2 do
  local text, created_ms, expires_ms = string.match(all[i + 1], '^(%S+) (%d+) (%d*)$')
  local live = expires_ms == '' or tonumber(expires_ms) > now_ms
  if live and tonumber(created_ms) > newest_ms then
    newest, newest_ms = i, tonumber(created_ms)
  end
  local parts = { all[i], text, created_ms, expires_ms }
  if all[i] == id then made_before = parts elseif live then others = parts end
end
if made_before then
  for _, part in ipairs(others) do made_before[#made_before + 1] = part end
  return made_before
end
local created_ms = string.format('%.0f', math.max(now_ms, newest_ms + 1))
local reply = { id, secret, created_ms, '' }
for i = 1, #all, 2 do
  if i ~= newest then redis.call('HDEL', secrets, all[i]) end
end
if newest then
  local text, made_ms = string.match(all[newest + 1], '^(%S+) (%d+)')
  local expires_ms = string.format('%.0f', now_ms + overlap_ms)
  redis.call('HSET', secrets, all[newest], text .. ' ' .. made_ms .. ' ' .. expires_ms)
  for _, part in ipairs({ all[newest], text, made_ms, expires_ms }) do reply[#reply + 1] = part end
end
redis.call('HSET', secrets, id, secret .. ' ' .. created_ms .. ' ')
return reply
