// Schedules: what runs when, in this reader's time and the schedule's own.
import { useState } from 'preact/hooks';
import type { ScheduleList } from '../../client/index.ts';
import { useSession } from '../context.ts';
import { count, shortId, tasks } from '../format.ts';
import { useLoad } from '../load.ts';
import { Empty, ErrorNote, Pager, Status, When } from '../parts.tsx';

const LIMIT = 25;
const LIST_MS = 10_000;

export function SchedulesPage() {
  const { client } = useSession();
  const [offset, setOffset] = useState(0);
  const { data, error } = useLoad<ScheduleList>(`schedules ${offset}`, () => client.listSchedules({ limit: LIMIT, offset }), LIST_MS);
  return (
    <>
      <div class="title">
        <h1>Schedules {data !== null && <span class="faint">{count(data.total)}</span>}</h1>
        <a class="button" href="#/schedules/new">
          New schedule
        </a>
      </div>
      <ErrorNote text={error} />
      {data?.total === 0 && (
        <Empty title="No schedules yet">
          <p>A schedule makes a task, or a whole batch, again and again: every minute, each Monday at nine in Berlin, at a month's end.</p>
          <p>
            <a class="button" href="#/schedules/new">
              Create the first one
            </a>
          </p>
        </Empty>
      )}
      {data !== null && data.schedules.length > 0 && (
        <div class="scroll">
          <table>
            <thead>
              <tr>
                <th scope="col">Schedule</th>
                <th scope="col">Status</th>
                <th scope="col">When</th>
                <th scope="col">Next</th>
                <th scope="col" class="number">
                  Runs
                </th>
              </tr>
            </thead>
            <tbody>
              {data.schedules.map((schedule) => (
                <tr key={schedule.id}>
                  <td class="name">
                    <a href={`#/schedules/${schedule.id}`}>{targetText(schedule) ?? shortId(schedule.id)}</a>
                  </td>
                  <td>
                    <Status value={schedule.status} />
                  </td>
                  <td>
                    <code>{schedule.cron}</code> <span class="faint">{schedule.timezone}</span>
                  </td>
                  <td>
                    <When at={schedule.next_execution_at} />
                  </td>
                  <td class="number">{count(schedule.execution_count)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {data !== null && <Pager total={data.total} limit={LIMIT} offset={offset} onOffset={setOffset} />}
    </>
  );
}

type Item = ScheduleList['schedules'][number];

/** What a schedule does, in a line. */
export function targetText({ task_template, batch_template }: Pick<Item, 'task_template' | 'batch_template'>): string | null {
  if (batch_template !== undefined) return batch_template.description ?? `a batch of ${tasks(batch_template.task_templates.length)}`;
  if (task_template === undefined) return null;
  return typeof task_template.target === 'string' ? task_template.target : task_template.target.url;
}
