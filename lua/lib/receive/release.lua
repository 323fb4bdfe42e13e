-- @include lib/receive/lane
-- `release`: a reference leaves its lane, wherever it stood.
kinds.release = function(body)
  local lane, ref = string.match(body, '^%d+ (%w+) (.*)$')
  lane_set(lane, ref, false)
end
