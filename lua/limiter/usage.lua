-- Reads how a limiter is used; changes nothing.
--
-- @flags no-writes
-- @key   meta      hash    {pN}:m
-- @arg   core      string  its id without the prefix
-- @arg   account   string  whose it is
-- @arg   now_us    now_us  this shard's clock
-- @reply [] | [number, number, number, number, string, string[]]   this shard's time (ms); waiting; slots taken; units free, -1 without a limit; when (ms) more is free, '' now or unknown; fields and values of lib/tally
-- @cost  O(153) counts
-- @include lib/record

local lane = lane_load(core, now_us)
if lane.account ~= account then return {} end
lane_settle(lane)

local free, next_us = -1, nil
if lane.machine then
  local closed_until = lane_closed_until(lane)
  local room = lane_room(lane)
  free = closed_until and 0 or room
  if room == 0 then next_us = lane.machine.next(lane, 1) end
  if closed_until then next_us = math.max(next_us or 0, closed_until) end
end
local next_ms = next_us and next_us < math.huge and lane_text(math.ceil((next_us - lane.skew) / 1000)) or ''
return { math.floor(lane.now / 1000), lane.waiting, lane.held or 0, free, next_ms, call('HGETALL', lane.key .. ':use') }
