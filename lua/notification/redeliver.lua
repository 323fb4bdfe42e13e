-- Sends a notification again that was delivered or given up: from its first try on, with the same id and body.
--
-- @key   meta      hash    {pN}:m
-- @arg   core      string  the batch
-- @arg   index     int     the notification's place in its companion, see lib/notify
-- @arg   account   string  account id
-- @arg   op        string  operation id (base 62); a repeated call with the same one changes nothing
-- @arg   now_ms    now     this shard's clock
-- @reply string            queued, waiting: it is on its way already, batch: there is none, missing: not in its log
-- @cost  O(1)
-- @include lib/notify
-- @include lib/operation
-- @include lib/round

local b = batch_visible(core, account)
if not b then return 'batch' end
local notes = b.N and batch_load(core .. 'n')
if not notes or index >= notes.n then return 'missing' end
local byte = call('GETRANGE', notes.key .. ':s', index, index)
if byte == 'x' then return 'missing' end
if operation_before(op, now_ms) then return 'queued' end
if byte ~= 'c' and byte ~= 'f' then return 'waiting' end

local page = call('HGET', notes.key .. ':0', string.format('%.0f', math.floor(index / NOTES_PAGE)))
local at = 1
for _ = 1, index % NOTES_PAGE do at = at + 4 + struct.unpack('>I4', page, at) end
local letter = string.sub(page, at + 6, at + 6)

notes[byte] = notes[byte] - 1
notes.dirty = true
ready_push('n:' .. account .. ':' .. note_wanted(b, letter).origin,
  entry_of(notes.core, index, index, attempts_first(notes), 0, NOTE_TIMEOUT_S, now_ms))
-- `r`: its first start may still be in flight as a part of a range.
round_deal(notes, 0, index, index)

round_deals_write()
batch_save(now_ms)
queue_write()
operation_write(op, core, index, now_ms)
ring_bell()
return 'queued'
