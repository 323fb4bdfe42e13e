-- Reads a batch for those who watch it, says for how long they will go on, and renews the places of their streams.
--
-- A place that ended meanwhile (its process stood still) is taken again where there is room; else its stream is named.
--
-- @flags allow-oom
-- @key   meta      hash    {pN}:m
-- @arg   core      string  the batch
-- @arg   watch_ms  int     how long hints are wanted from now on
-- @arg   tasks     int     1 where the hints are to name the tasks that ended
-- @arg   max       int     streams that the batch may have; 0 = no limit
-- @arg   place_ms  int     how long a place is kept without being renewed
-- @arg   now_ms    now     this shard's clock
-- @rest  streams           names of the streams of this process
-- @reply [number, (string | null)[], string[]]   number of the last hint; fields as in BATCH_FIELDS, none where the batch is gone; streams whose places are lost
-- @cost  O(streams)
-- @include lib/root

local key = root .. 'b:' .. core
local places = key .. ':streams'
local fields = call('HMGET', key, 'a', 's', 'n', 'c', 'f', 'x', 'r', 't', 'u', 'z', 'd', 'g', 'o', 'h')
if not fields[1] or fields[2] == 'tray' or fields[2] == 'notes' or fields[2] == 'deleted' then return { 0, {}, {} } end
local watch = call('HGET', key, 'W') or '0 0 0'
local till, tasks_till, number = string.match(watch, '^(%d+) (%d+) (%d+)$')
local renewed, lost = {}, {}
if max > 0 and #streams > 0 then
  local open = call('ZCOUNT', places, '(' .. string.format('%.0f', now_ms), '+inf')
  for _, stream in ipairs(streams) do
    local ends_ms = tonumber(call('ZSCORE', places, stream) or 0)
    if ends_ms > now_ms or open < max then
      if ends_ms <= now_ms then open = open + 1 end
      renewed[#renewed + 1] = now_ms + place_ms
      renewed[#renewed + 1] = stream
    else
      lost[#lost + 1] = stream
    end
  end
end

local until_ms = string.format('%.0f', math.max(tonumber(till), now_ms + watch_ms))
if tasks == 1 then tasks_till = string.format('%.0f', math.max(tonumber(tasks_till), now_ms + watch_ms)) end
call('HSET', key, 'W', until_ms .. ' ' .. tasks_till .. ' ' .. number)
for i = 1, #renewed, 1000 do call('ZADD', places, unpack(renewed, i, math.min(i + 999, #renewed))) end
if #renewed > 0 then call('PEXPIRE', places, place_ms) end
return { tonumber(number), fields, lost }
