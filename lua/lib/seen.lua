-- @include lib/batch
-- What names one state of a batch's bytes: whoever counted them outside writes only where it is still the same. No script changes
-- what a byte counts as without changing one of these.
local function batch_seen(b)
  return string.format('%.0f %.0f %s', b.v or 0, b.k, b.o_from and string.format('%.0f,%.0f', b.o_from, b.o_to) or '')
end
