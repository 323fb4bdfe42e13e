-- Reads the first messages that wait for other partitions, oldest destination first; takes nothing away.
--
-- @flags no-writes
-- @key   meta      hash    {pN}:m
-- @arg   messages_max int  messages at most, in all; never more than 500
-- @arg   destinations_max int  destinations at most
-- @arg   now_ms    now     this shard's clock
-- @rest  skip              destinations to leave out
-- @reply [number, number, [number, string[], number][]]   this shard's time; 1 where more waits than is shown; of each destination its number, its first messages, as stored, and 1 where it has more
-- @cost  O(messages + skipped)
-- @include lib/root

local MESSAGES_MAX = 500
local left = math.min(messages_max, MESSAGES_MAX)
local skipped, chosen, more = {}, {}, 0
for _, destination in ipairs(skip) do skipped[destination] = true end
-- One more than are looked for tells whether there are more.
for _, destination in ipairs(call('ZRANGE', root .. 'outbox', 0, destinations_max + #skip)) do
  if not skipped[destination] then
    if #chosen < math.min(destinations_max, left) then chosen[#chosen + 1] = destination else more = 1 end
  end
end

local slices = {}
for i, destination in ipairs(chosen) do
  local key = root .. 'outbox:' .. destination
  local share = math.ceil(left / (#chosen - i + 1))
  local messages = call('ZRANGE', key, 0, share - 1)
  local cut = call('ZCARD', key) > #messages and 1 or 0
  if cut == 1 then more = 1 end
  left = left - #messages
  slices[#slices + 1] = { tonumber(destination), messages, cut }
end
return { now_ms, more, slices }
