-- Makes one run of a schedule now, whatever its ticks do. A repeated call with the same operation answers as the first.
--
-- @key   meta        hash    {pN}:m
-- @arg   core        string  the schedule
-- @arg   account     string  account id
-- @arg   template    string  name of the template that the parts are from
-- @arg   op          string  operation id (base 62)
-- @arg   run_core    string  name of the batch of the run, or of the tray, should one be opened
-- @arg   staged      int     1 where the segments of the run were staged
-- @arg   trace       string  members for the head of a task or the document of a batch, JSON with a comma in front; '' for none. Staged segments have them already
-- @arg   idem_key    string  idempotency record to write, '' for none; see lib/idem
-- @arg   idem_print  string  fingerprint of the request
-- @arg   idem_extra  bytes   what the answer needs besides the reply
-- @arg   now_ms      now     this shard's clock
-- @rest  parts               see lib/run
-- @reply [string, string, string, number, number, number]   outcome (made, missing, changed: another template, lost: staged segments are gone, taken: the idempotency key is); what was made (t, b); its core, index in it, scheduled time, tasks
-- @cost  O(runs + segments, at most 2 of them unless staged)
-- @include lib/run
-- @include lib/idem

local s = schedule_load(core, account)
if not s then return { 'missing', '', '', 0, 0, 0 } end
if idem_taken() then return { 'taken', '', '', 0, 0, 0 } end
local before = operation_before(op, now_ms)
if before then return { 'made', s.y, before.core, before.first, before.at_ms, 0 } end
if s.g ~= template then return { 'changed', '', '', 0, 0, 0 } end
if not run_plan(s, now_ms, run_core, parts, staged, s.limited and 'xl' or 'x', now_ms, trace) then return { 'lost', '', '', 0, 0, 0 } end

run_write(now_ms)
operation_write(op, run.batch.core, run.index, now_ms)
local reply = { 'made', s.y, run.batch.core, run.index, now_ms, run.tasks }
idem_write(reply)
return reply
