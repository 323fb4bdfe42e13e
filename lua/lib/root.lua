-- The beginning of every key of this partition; mirrors src/store/keys.ts.
local root = string.sub(meta, 1, -2)
local call = redis.call

-- Fails, before anything is written, where one of these keys is not served by this node (a slot on the move).
local function touch(list)
  for i = 1, #list, 1000 do call('EXISTS', unpack(list, i, math.min(i + 999, #list))) end
end
