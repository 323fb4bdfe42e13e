// One batch: how far it is, what became of its tasks, what was told to whom; and what can be done about it.
import { useEffect, useState } from 'preact/hooks';
import type { Batch, TaskList } from '../../client/index.ts';
import { useSession } from '../context.ts';
import { count, seconds, shortId } from '../format.ts';
import { useLoad } from '../load.ts';
import { Action, ErrorNote, Pager, Progress, Status, When } from '../parts.tsx';
import { messageOf } from '../session.ts';

const LIMIT = 50;
const TASKS_MS = 5_000;

/** The batch as it was asked for, moved on by its stream until it has ended. */
function useBatch(id: string): { batch: Batch | null; error: string | null; again(): void } {
  const { client } = useSession();
  const { data, error, again } = useLoad<Batch>(id, () => client.getBatch(id));
  const [live, setLive] = useState<Partial<Batch>>({});
  const over = data !== null && data.status !== 'pending' && data.status !== 'processing';
  useEffect(() => {
    setLive({});
    if (data === null || over) return;
    const stop = new AbortController();
    const follow = async (): Promise<void> => {
      for await (const frame of client.watch(id, { signal: stop.signal })) {
        if (frame.type === 'task') continue;
        const { status, stats, completion_rate } = frame.type === 'snapshot' ? frame.batch : frame;
        setLive({ status: status as Batch['status'], stats, completion_rate });
      }
      again();
    };
    void follow().catch(() => {});
    return () => stop.abort();
  }, [client, id, data === null, over]);
  return { batch: data === null ? null : { ...data, ...(over ? {} : live) }, error, again };
}

export function BatchPage({ id }: { id: string }) {
  const { client } = useSession();
  const { batch, error, again } = useBatch(id);
  const [failure, setFailure] = useState<string | null>(null);
  if (batch === null) return error === null ? <p class="faint">Loading…</p> : <ErrorNote text={error} />;
  const live = batch.status === 'pending' || batch.status === 'processing';
  const done = (): void => {
    setFailure(null);
    again();
  };
  const onError = (thrown: unknown): void => setFailure(messageOf(thrown));
  return (
    <>
      <p class="crumb">
        <a href="#/batches">Batches</a> / <code>{shortId(id)}</code>
      </p>
      <div class="title">
        <h1>{batch.description ?? 'Batch'}</h1>
        <Status value={batch.status} />
        <div class="actions">
          {live && (
            <Action
              label="Cancel"
              question={`Cancel the ${count(batch.stats.pending)} tasks that have not finished? Running ones finish.`}
              run={() => client.cancelBatch(id)}
              onDone={done}
              onError={onError}
            />
          )}
          {live && batch.options.hold && <Action label="Release" run={() => client.releaseBatch(id)} onDone={done} onError={onError} />}
        </div>
      </div>
      <ErrorNote text={failure} />
      <Progress stats={batch.stats} />
      <dl class="tiles">
        {(['total', 'pending', 'completed', 'failed', 'cancelled'] as const).map((name) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{count(batch.stats[name])}</dd>
          </div>
        ))}
        <div>
          <dt>completed</dt>
          <dd>{batch.completion_rate} %</dd>
        </div>
      </dl>
      <p class="faint">
        Created <When at={batch.created_at} />, changed <When at={batch.updated_at} />, expires {batch.options.expiration} h after its
        creation or its latest task's time. Id <code>{id}</code>
      </p>
      <Tasks id={id} live={live} />
    </>
  );
}

type TaskStatus = 'queued' | 'processing' | 'completed' | 'failed';

function Tasks({ id, live }: { id: string; live: boolean }) {
  const { client } = useSession();
  const [status, setStatus] = useState<TaskStatus | ''>('');
  const [offset, setOffset] = useState(0);
  const [failure, setFailure] = useState<string | null>(null);
  const query = { limit: LIMIT, offset, ...(status === '' ? {} : { status }) };
  const { data, error, again } = useLoad<TaskList>(
    `${id} ${JSON.stringify(query)}`,
    () => client.listBatchTasks(id, query),
    live ? TASKS_MS : null,
  );
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
            {['', 'queued', 'processing', 'completed', 'failed'].map((value) => (
              <option key={value} value={value}>
                {value === '' ? 'all' : value}
              </option>
            ))}
          </select>
        </label>
      </div>
      <ErrorNote text={failure ?? error} />
      {data?.total === 0 && <p class="faint">No tasks are like this.</p>}
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
                <TaskRow key={task.id} task={task} onChange={again} onError={(thrown) => setFailure(messageOf(thrown))} />
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
  task: TaskList['tasks'][number];
  onChange(): void;
  onError(error: unknown): void;
}

function TaskRow({ task, onChange, onError }: TaskRowProps) {
  const { client } = useSession();
  const { result } = task;
  const target = typeof task.target === 'string' ? { url: task.target, method: 'POST' } : task.target;
  return (
    <tr>
      <td>
        <code title={task.id}>{shortId(task.id)}</code>
      </td>
      <td>
        <Status value={task.status} />
      </td>
      <td class="target">
        <span class="method">{target.method ?? 'POST'}</span> {target.url}
      </td>
      <td class="number">{task.attempts ?? 0}</td>
      <td>
        {result ? (
          <details>
            <summary>
              {result.status_code ?? result.error?.code ?? '–'}{' '}
              {typeof result.duration_ms === 'number' && <span class="faint">{seconds(result.duration_ms / 1000)}</span>}
            </summary>
            {result.error && <p>{result.error.message}</p>}
            {result.response_excerpt && <pre>{result.response_excerpt}</pre>}
          </details>
        ) : (
          <span class="faint">–</span>
        )}
      </td>
      <td class="actions">
        {task.status === 'queued' && <Action label="Cancel" run={() => client.cancelTask(task.id)} onDone={onChange} onError={onError} />}
        {task.status === 'failed' && <Action label="Retry" run={() => client.retryTask(task.id)} onDone={onChange} onError={onError} />}
      </td>
    </tr>
  );
}
