// The tasks of a batch: each with its attempts and what its target answered, by status.
import { useState } from 'preact/hooks';
import type { TaskList } from '../../client/index.ts';
import { useSession } from '../context.ts';
import { count, seconds, shortId, time } from '../format.ts';
import { useLoad } from '../load.ts';
import { Action, ErrorNote, Pager, Status } from '../parts.tsx';
import { messageOf } from '../session.ts';

type TaskStatus = 'queued' | 'processing' | 'completed' | 'failed';
type Item = TaskList['tasks'][number];

const STATUSES: readonly (TaskStatus | '')[] = ['', 'queued', 'processing', 'completed', 'failed'];
/** Few enough that what stands below is not far. */
const LIMIT = 20;
/** The batch's own changes bring the list again; this is for a try that neither ended nor began anything. */
const EVERY_MS = 15_000;
const COLUMNS = 6;

interface TasksProps {
  id: string;
  live: boolean;
  /** Its failed tasks can be tried again: it was not cancelled. */
  retryable: boolean;
  /** Changes when the batch does. */
  version: string;
  onChange(): void;
}

export function Tasks({ id, live, retryable, version, onChange }: TasksProps) {
  const { client } = useSession();
  const [status, setStatus] = useState<TaskStatus | ''>('');
  const [offset, setOffset] = useState(0);
  const [failure, setFailure] = useState<string | null>(null);
  const query = { limit: LIMIT, offset, ...(status === '' ? {} : { status }) };
  const name = `${id} ${JSON.stringify(query)}`;
  const { data, error, again } = useLoad<TaskList>(name, () => client.listBatchTasks(id, query), live ? EVERY_MS : null, version);
  const changed = (): void => {
    setFailure(null);
    again();
    onChange();
  };
  return (
    <section aria-labelledby="tasks">
      <div class="title">
        <h2 id="tasks">Tasks {data !== null && <span class="faint">{count(data.total)}</span>}</h2>
        <label>
          Status
          <select
            value={status}
            onChange={({ currentTarget }) => {
              setOffset(0);
              setStatus(currentTarget.value as TaskStatus | '');
            }}
          >
            {STATUSES.map((value) => (
              <option key={value} value={value}>
                {value === '' ? 'all' : value}
              </option>
            ))}
          </select>
        </label>
      </div>
      <ErrorNote text={failure ?? error} />
      {data?.tasks.length === 0 && <p class="faint">No tasks are like this.</p>}
      {data !== null && data.tasks.length > 0 && (
        <div class="scroll">
          <table>
            <thead>
              <tr>
                <th scope="col">Task</th>
                <th scope="col">Status</th>
                <th scope="col">Target</th>
                <th scope="col" class="number">
                  Attempts
                </th>
                <th scope="col">Last answer</th>
                <th scope="col">
                  <span class="hidden">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {data.tasks.map((task) => (
                <TaskRows
                  key={task.id}
                  task={task}
                  retryable={retryable}
                  onChange={changed}
                  onError={(thrown) => setFailure(messageOf(thrown))}
                />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {data !== null && <Pager total={data.total} limit={LIMIT} offset={offset} onOffset={setOffset} />}
    </section>
  );
}

interface TaskRowProps {
  task: Item;
  retryable: boolean;
  onChange(): void;
  onError(error: unknown): void;
}

/** A task's row, and under it, once asked for, all that is known of it. */
function TaskRows({ task, retryable, onChange, onError }: TaskRowProps) {
  const { client } = useSession();
  const [open, setOpen] = useState(false);
  const { target } = task;
  return (
    <>
      <tr>
        <td>
          <button type="button" class="fold" aria-expanded={open} title={task.id} onClick={() => setOpen(!open)}>
            <code>{shortId(task.id)}</code>
          </button>
        </td>
        <td>
          <Status value={task.status} />
        </td>
        <td class="target">
          <span class="method">{typeof target === 'string' ? 'POST' : (target.method ?? 'POST')}</span>{' '}
          {typeof target === 'string' ? target : target.url}
        </td>
        <td class="number">{task.attempts}</td>
        <td>
          <Answer result={task.result} />
        </td>
        <td class="actions">
          {task.status === 'queued' && <Action label="Cancel" run={() => client.cancelTask(task.id)} onDone={onChange} onError={onError} />}
          {retryable && task.status === 'failed' && (
            <Action label="Retry" run={() => client.retryTask(task.id)} onDone={onChange} onError={onError} />
          )}
        </td>
      </tr>
      {open && (
        <tr class="detail">
          <td colSpan={COLUMNS}>
            <TaskDetail task={task} />
          </td>
        </tr>
      )}
    </>
  );
}

/** What came of the last try, in a few characters. */
export function Answer({ result }: { result: Item['result'] }) {
  if (!result) return <span class="faint">–</span>;
  const { status_code, duration_ms, error } = result;
  return (
    <span title={error?.message}>
      {status_code ?? error?.code ?? '–'} {typeof duration_ms === 'number' && <span class="faint">{seconds(duration_ms / 1000)}</span>}
    </span>
  );
}

function TaskDetail({ task }: { task: Item }) {
  const { result } = task;
  const facts: [name: string, value: string | undefined][] = [
    ['Id', task.id],
    ['Created', time(task.created_at)],
    ['Not before', task.scheduled_for && time(task.scheduled_for)],
    ['Finished', task.completed_at && time(task.completed_at)],
    ['Rate limiter', task.rate_limiter],
    ['Error', result?.error ? `${result.error.code}: ${result.error.message}` : undefined],
  ];
  return (
    <>
      <dl class="facts">
        {facts.map(
          ([name, value]) =>
            value && (
              <div key={name}>
                <dt>{name}</dt>
                <dd>{value}</dd>
              </div>
            ),
        )}
      </dl>
      <div class="columns">
        {task.payload !== undefined && <Text title="Payload" text={JSON.stringify(task.payload, null, 2)} />}
        {result?.response_excerpt && <Text title="Answer, its first 1 KiB" text={result.response_excerpt} />}
      </div>
    </>
  );
}

function Text({ title, text }: { title: string; text: string }) {
  return (
    <figure class="text">
      <figcaption>{title}</figcaption>
      <pre>{text}</pre>
    </figure>
  );
}
