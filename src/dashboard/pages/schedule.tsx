// One schedule: when it runs next, what its runs became, and what can be done about it.
import { useState } from 'preact/hooks';
import type { Schedule, ScheduledTaskList, SchedulePreview } from '../../client/index.ts';
import { useSession } from '../context.ts';
import { useEditing } from '../form.tsx';
import { count, shortId, time } from '../format.ts';
import { useLoad } from '../load.ts';
import { Action, ErrorNote, Executions, Fact, Pager, Status, When } from '../parts.tsx';
import { goTo } from '../route.ts';
import { messageOf } from '../session.ts';
import { Answer } from './batch-tasks.tsx';
import { ScheduleEdit } from './schedule-form.tsx';
import { targetText } from './schedules.tsx';

const LIMIT = 25;
const TASKS_MS = 5_000;

export function SchedulePage({ id }: { id: string }) {
  const { client } = useSession();
  const { data: schedule, error, again } = useLoad<Schedule>(id, () => client.getSchedule(id), TASKS_MS);
  const [failure, setFailure] = useState<string | null>(null);
  const { editing, button, close } = useEditing();
  if (schedule === null) return error === null ? <p class="faint">Loading…</p> : <ErrorNote text={error} />;
  const done = (): void => {
    setFailure(null);
    again();
  };
  const onError = (thrown: unknown): void => setFailure(messageOf(thrown));
  const { enabled } = schedule;
  return (
    <>
      <p class="crumb">
        <a href="#/schedules">Schedules</a> / <code>{shortId(id)}</code>
      </p>
      <div class="title">
        <h1>
          <code>{schedule.cron}</code>
        </h1>
        <Status value={schedule.status} />
        <div class="actions">
          {button}
          <Action label="Run now" run={() => client.triggerSchedule(id)} onDone={done} onError={onError} />
          <Action
            label={enabled ? 'Disable' : 'Enable'}
            run={() => client.patchSchedule(id, { enabled: !enabled })}
            onDone={done}
            onError={onError}
          />
          <Action
            label="Delete"
            question="Delete this schedule? Tasks that it made already are not affected."
            run={() => client.deleteSchedule(id)}
            onDone={() => goTo('#/schedules')}
            onError={onError}
          />
        </div>
      </div>
      <ErrorNote text={failure ?? error} />
      {editing && <ScheduleEdit schedule={schedule} onChange={again} onClose={close} />}
      <dl class="facts">
        <Fact name="Calls">{targetText(schedule)}</Fact>
        <Fact name="Time zone">{schedule.timezone}</Fact>
        {schedule.start_at !== undefined && <Fact name="From">{time(schedule.start_at)}</Fact>}
        {schedule.end_at !== undefined && <Fact name="Until">{time(schedule.end_at)}</Fact>}
        <Fact name="Created">
          <When at={schedule.created_at} />
        </Fact>
      </dl>
      {schedule.last_error !== undefined && (
        <p class="error">
          A run could not be made <When at={schedule.last_error.at} />: {schedule.last_error.code}
        </p>
      )}
      <dl class="tiles">
        <div>
          <dt>Runs so far</dt>
          <dd>{count(schedule.execution_count)}</dd>
        </div>
        <div>
          <dt>Last run</dt>
          <dd class="long">
            <When at={schedule.last_execution_at} />
          </dd>
        </div>
        <div>
          <dt>Next run</dt>
          <dd class="long">
            <When at={schedule.next_execution_at} />
          </dd>
        </div>
      </dl>
      <div class="columns">
        <NextRuns id={id} timezone={schedule.timezone} version={`${schedule.updated_at} ${schedule.next_execution_at}`} />
        <Runs id={id} />
      </div>
    </>
  );
}

function NextRuns({ id, timezone, version }: { id: string; timezone: string; version: string }) {
  const { client } = useSession();
  const { data, error } = useLoad<SchedulePreview>(`${id} preview`, () => client.previewSchedule(id, { limit: 10 }), null, version);
  return (
    <section aria-labelledby="next">
      <h2 id="next">Next runs</h2>
      <ErrorNote text={error} />
      {data !== null && <Executions timezone={timezone} executions={data.executions} />}
    </section>
  );
}

function Runs({ id }: { id: string }) {
  const { client } = useSession();
  const [offset, setOffset] = useState(0);
  const name = `${id} tasks ${offset}`;
  const { data, error } = useLoad<ScheduledTaskList>(name, () => client.listScheduleTasks(id, { limit: LIMIT, offset }), TASKS_MS);
  return (
    <section aria-labelledby="runs">
      <h2 id="runs">Runs {data !== null && <span class="faint">{count(data.total)}</span>}</h2>
      <ErrorNote text={error} />
      {data?.total === 0 && <p class="faint">None yet.</p>}
      {data !== null && data.tasks.length > 0 && (
        <div class="scroll">
          <table>
            <thead>
              <tr>
                <th scope="col">For</th>
                <th scope="col">Status</th>
                <th scope="col">Answer</th>
                <th scope="col">Task</th>
              </tr>
            </thead>
            <tbody>
              {data.tasks.map((task) => (
                <tr key={task.id}>
                  <td>
                    <When at={task.scheduled_for} />
                  </td>
                  <td>
                    <Status value={task.status} />
                  </td>
                  <td>
                    <Answer result={task.result} />
                  </td>
                  <td>
                    {task.batch_id === null ? (
                      <code title={task.id}>{shortId(task.id)}</code>
                    ) : (
                      <a href={`#/batches/${task.batch_id}`}>its batch</a>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {data !== null && <Pager total={data.total} limit={LIMIT} offset={offset} onOffset={setOffset} />}
    </section>
  );
}
