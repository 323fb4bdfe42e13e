-- @include lib/lane
-- A limiter's record in the lane's hash, beside its machine's numbers:
--   account  name  type  config (JSON, opaque)  description (JSON, '' none)  queue_s  valid_s  cooldown '1' closes the limiter
--   created  updated  deleted (ms)
-- The fields of a record's reply: RECORD_FIELDS in src/store/limiters.ts.
local RECORD_FIELDS = { 'account', 'name', 'type', 'config', 'description', 'queue_s', 'valid_s', 'cooldown', 'created', 'updated', 'deleted' }

-- The lane where it is the account's own and lives, settled; else nil.
local function record_lane(core, account, now_us)
  local lane = lane_load(core, now_us)
  if lane.account ~= account or lane.deleted then return nil end
  return lane_settle(lane)
end

-- The record as it is stored, and until when the limiter is paused: '' not at all, 'inf', or a time in ms.
local function record_reply(lane)
  local reply = call('HMGET', lane.key, unpack(RECORD_FIELDS, 1, #RECORD_FIELDS))
  for i = 1, #RECORD_FIELDS do reply[i] = reply[i] or '' end
  local paused = lane.pause and lane.pause > lane.v
  reply[#reply + 1] = not paused and '' or lane.pause < math.huge and lane_text((lane.pause - lane.skew) / 1000) or 'inf'
  return reply
end
