-- What a reconciler must know of batches to see whether they need it: their counters as they are kept, and whether a place is missing.
--
-- Of one that has ended only its place in `deadlines` is looked at, since without it nothing would ever delete it.
--
-- @flags no-writes
-- @key   meta      hash    {pN}:m
-- @arg   keep_ms   int     how long a finished batch stays
-- @arg   tray_keep_ms int  how long a finished tray stays
-- @arg   now_ms    now     this shard's clock
-- @rest  cores             batches, trays, companions
-- @reply [string, string, string, string, number, number, number, number, number, number, number, number][]   of each that is there: core, what names this state (lib/seen), status, account, n, c, f, x, r, state bytes, 1 where it has ended, 1 where a place of it is missing
-- @cost  O(batches), some 10 keys of each
-- @include lib/seen
-- @include lib/places

local found = {}
for _, core in ipairs(cores) do
  local b = batch_load(core)
  if b and b.s ~= 'deleted' then
    for _, field in ipairs({ 'n', 'c', 'f', 'x', 'r' }) do b[field] = b[field] or -1 end
    -- Trays and companions have no end of their own.
    local over = (b.s == 'tray' or b.s == 'notes') and b.n == b.c + b.f + b.x
    local lost = place_due_lost(b, place_due(b, now_ms, keep_ms, tray_keep_ms))
    if not lost and batch_live(b) then
      local lists, strange = places_lost(b)
      lost = #lists + #strange > 0
    end
    found[#found + 1] = { core, batch_seen(b), b.s, b.a, b.n, b.c, b.f, b.x, b.r,
      call('STRLEN', b.key .. ':s'), (b.z or over) and 1 or 0, lost and 1 or 0 }
  end
end
return found
