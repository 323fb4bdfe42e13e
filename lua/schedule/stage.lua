-- Copies a segment of a template for a run that is about to be made, under a name that expires.
--
-- Why apart from the run: one segment takes about a millisecond, and a template may have many.
--
-- @key   meta      hash    {pN}:m
-- @arg   core      string  the schedule
-- @arg   template  string  name of its template
-- @arg   batch     string  core of the batch to be
-- @arg   base      string  first index of the segment
-- @arg   ttl_ms    int     how long the copy lives
-- @reply number            1, or 0 where the template is not there any more
-- @cost  O(tasks of the segment)
-- @include lib/schedule

local from = schedule_segment({ key = root .. 'sched:' .. core }, template, base)
local to = root .. 'b:' .. batch .. ':+new:' .. base
if call('COPY', from, to, 'REPLACE') == 0 then return 0 end
call('PEXPIRE', to, ttl_ms)
return 1
