-- Sets a batch right by its state bytes, which the caller has counted: counters, its end where nothing is left to finish, its
-- places in lists and in `deadlines`. In a healthy partition it finds nothing to do.
--
-- The caller counts outside, since a batch may have ten million bytes; so nothing is written where the batch is not the same any
-- more. Corrections are no progress: nobody is notified of them, but of an end that had been missed.
--
-- @flags allow-oom
-- @key   meta      hash    {pN}:m
-- @arg   core      string  the batch, tray or companion
-- @arg   seen      string  the state whose bytes were counted (lib/seen)
-- @arg   total     int     bytes
-- @arg   completed int     tasks by what their bytes say
-- @arg   failed    int     of an expired batch with those that wait
-- @arg   cancelled int     of a cancelled batch with those that wait
-- @arg   running   int     tasks in flight
-- @arg   keep_ms   int     how long a finished batch stays
-- @arg   tray_keep_ms int  how long a finished tray stays
-- @arg   now_ms    now     this shard's clock
-- @reply string[]          what was set right: counters, end, places; or `gone`, or `moved`: it is not the same any more
-- @cost  O(1)
-- @include lib/seen
-- @include lib/places
-- @include lib/notify

local b = batch_load(core)
if not b or b.s == 'deleted' then return { 'gone' } end
if batch_seen(b) ~= seen or call('STRLEN', b.key .. ':s') ~= total then return { 'moved' } end

local repaired = {}
local function set(field, value)
  if b[field] == value then return false end
  b[field] = value
  return true
end
local changed = { set('n', total), set('c', completed), set('f', failed), set('x', cancelled), set('r', running) }
if b.s == 'pending' and b.c + b.r > 0 then
  b.s = 'processing'
  changed[6] = true
end
for _, is in pairs(changed) do
  if is then
    b.dirty = true
    b.v = b.v or 0
  end
end
if b.dirty then repaired[1] = 'counters' end
if b.N then b.n_was, b.c_was, b.f_was, b.x_was = b.n, b.c, b.f, b.x end

-- What it ends with follows from its counters, as where its last task ends.
local over = b.n == b.c + b.f + b.x
if over and not b.z and b.s ~= 'tray' and batch_end(b, now_ms, keep_ms) then repaired[#repaired + 1] = 'end' end
notify_plan(now_ms)

local due_ms = place_due(b, now_ms, keep_ms, tray_keep_ms)
local due_lost = not b.deadline and place_due_lost(b, due_ms)
local lost, strange = {}, {}
if b.s == b.s_was then lost, strange = places_lost(b) end
if due_lost or #lost + #strange > 0 then repaired[#repaired + 1] = 'places' end

batch_save(now_ms)
notify_write()
queue_write()
if due_lost then call('ZADD', root .. 'deadlines', due_ms, core) end
for _, key in ipairs(lost) do call('ZADD', key, b.t, core) end
for _, key in ipairs(strange) do call('ZREM', key, core) end
ring_bell(due_lost and due_ms or nil)
return repaired
