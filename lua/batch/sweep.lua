-- Writes down which tasks of a batch failed because it expired, a slice at a call: `e` in place of the bytes that say so
-- only while it is expired. Needed before a round of some of its tasks alone; a round of all reads them as they are.
--
-- In an expired batch of which nothing runs no byte changes otherwise, so slices need no order. How far they went is field
-- `y` of the batch, until the next round; everything before it is written.
--
-- @flags allow-oom
-- @key   meta      hash    {pN}:m
-- @arg   core      string  the batch
-- @arg   account   string  account id
-- @arg   tasks_max int     tasks of a slice
-- @reply number            1 where more is left, 0 where nothing is, or nothing is to be done
-- @cost  O(tasks_max)
-- @include lib/round

local b = batch_visible(core, account)
if not b or b.s ~= 'expired' or not b.z then return 0 end
local from = tonumber(call('HGET', b.key, 'y') or '0')
if from >= b.n then return 0 end
local states = call('GETRANGE', b.key .. ':s', from, from + tasks_max - 1)
local to = from + #states - 1
local swept = string.gsub(states, '[qr]', 'e')
if b.o_from and b.o_from <= to and b.o_to >= from then
  local first, after = math.max(0, b.o_from - from), math.min(#states, b.o_to - from + 1)
  swept = string.sub(swept, 1, first) .. string.gsub(string.sub(swept, first + 1, after), 'f', 'e') .. string.sub(swept, after + 1)
end

call('SETRANGE', b.key .. ':s', from, swept)
call('HSET', b.key, 'y', to + 1)
if to + 1 < b.n then return 1 end
if b.o_from then call('HDEL', b.key, 'o') end
return 0
