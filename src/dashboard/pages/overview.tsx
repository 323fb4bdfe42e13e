// At a glance: what runs, what waits, what fails and why.
import { useState } from 'preact/hooks';
import type { BatchList, TaskList } from '../../client/index.ts';
import { Chart } from '../chart.tsx';
import { useSession } from '../context.ts';
import { bytes, count, seconds, shortId } from '../format.ts';
import { useLoad } from '../load.ts';
import { type History, quantiles, rates, type Sample, sumOf, useMetrics } from '../metrics.ts';
import { Empty, ErrorNote, Progress, Status, When } from '../parts.tsx';

const METRICS_TOKEN = 'sluice.metrics-token';
const LIST_MS = 5_000;
const FAILING_MAX = 5;

export function OverviewPage() {
  const [token, setToken] = useState(() => sessionStorage.getItem(METRICS_TOKEN));
  const metrics = useMetrics(token);
  return (
    <>
      <h1>Overview</h1>
      {metrics.kind === 'live' && <Live history={metrics.history} />}
      {metrics.kind === 'away' && <ErrorNote text="The metrics of this process cannot be read right now." />}
      {metrics.kind === 'refused' && (
        <MetricsToken
          onToken={(given) => {
            sessionStorage.setItem(METRICS_TOKEN, given);
            setToken(given);
          }}
        />
      )}
      <div class="columns">
        <Running />
        <Failing />
      </div>
    </>
  );
}

function Live({ history }: { history: History }) {
  const now: Sample = history.samples.at(-1) ?? new Map();
  const outcome = (name: string) => (sample: Sample) => sumOf(sample, 'sluice_callbacks_total', `outcome="${name}"`);
  const waiting = (name: string): number => sumOf(now, 'sluice_queue_depth', `class="${name}"`);
  const completed = rates(history, outcome('completed'));
  const memory_max = sumOf(now, 'sluice_redis_memory_max_bytes');
  const tiles: [label: string, value: string, hint: string][] = [
    [
      'Calls a second',
      count(Math.round(rates(history, (sample) => sumOf(sample, 'sluice_callbacks_total')).at(-1) ?? 0)),
      'by this process',
    ],
    ['In flight', count(sumOf(now, 'sluice_callbacks_in_flight')), 'sent, not answered'],
    ['Ready', count(waiting('fresh') + waiting('retry') + waiting('notification')), 'may run now'],
    ['Delayed', count(waiting('delayed')), 'not due yet'],
    ['Oldest waiting', seconds(sumOf(now, 'sluice_oldest_waiting_seconds')), 'due and not sent'],
    ['Broken targets', count(sumOf(now, 'sluice_origins_broken')), 'cannot be reached'],
    ['Redis memory', bytes(sumOf(now, 'sluice_redis_memory_bytes')), memory_max > 0 ? `of ${bytes(memory_max)}` : 'no limit set'],
  ];
  return (
    <>
      <dl class="tiles">
        {tiles.map(([label, value, hint]) => (
          <div key={label}>
            <dt>{label}</dt>
            <dd>{value}</dd>
            <small>{hint}</small>
          </div>
        ))}
      </dl>
      <div class="charts">
        <Chart
          title="Calls a second, by outcome"
          series={[
            { label: 'completed', color: '--green' },
            { label: 'to be retried', color: '--amber' },
            { label: 'failed', color: '--red' },
          ]}
          data={[history.times, completed, rates(history, outcome('retry')), rates(history, outcome('failed'))]}
          format={(value) => count(Math.round(value * 10) / 10)}
          top_min={10}
        />
        <Chart
          title="From due to sent"
          series={[
            { label: 'median', color: '--blue' },
            { label: 'p99', color: '--violet' },
          ]}
          data={[
            history.times,
            quantiles(history, 'sluice_delivery_lag_seconds', 0.5),
            quantiles(history, 'sluice_delivery_lag_seconds', 0.99),
          ]}
          format={seconds}
          top_min={0.01}
        />
        <Chart
          title="How long targets take"
          series={[
            { label: 'median', color: '--blue' },
            { label: 'p99', color: '--violet' },
          ]}
          data={[
            history.times,
            quantiles(history, 'sluice_callback_duration_seconds', 0.5),
            quantiles(history, 'sluice_callback_duration_seconds', 0.99),
          ]}
          format={seconds}
          top_min={0.01}
        />
      </div>
    </>
  );
}

function MetricsToken({ onToken }: { onToken(token: string): void }) {
  const [token, setToken] = useState('');
  const submit = (event: Event): void => {
    event.preventDefault();
    onToken(token);
  };
  return (
    <form class="card row" onSubmit={submit}>
      <label for="metrics-token">The charts need the metrics token (SLUICE_METRICS_TOKEN)</label>
      <input id="metrics-token" type="password" required value={token} onInput={({ currentTarget }) => setToken(currentTarget.value)} />
      <button type="submit">Show charts</button>
    </form>
  );
}

function Running() {
  const { client } = useSession();
  const { data, error } = useLoad<BatchList>('running', () => client.listBatches({ status: 'processing', limit: 8 }), LIST_MS);
  return (
    <section aria-labelledby="running">
      <h2 id="running">Running batches {data !== null && <span class="faint">{count(data.total)}</span>}</h2>
      <ErrorNote text={error} />
      {data?.batches.length === 0 && (
        <Empty title="Nothing runs">
          <p>
            <a href="#/batches/new">Create a batch</a> to see it move.
          </p>
        </Empty>
      )}
      <ul class="list">
        {data?.batches.map((batch) => (
          <li key={batch.id}>
            <a href={`#/batches/${batch.id}`}>{batch.description ?? shortId(batch.id)}</a>
            <Progress stats={batch.stats} />
            <span class="faint">{batch.completion_rate} %</span>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Where the newest failures come from: the targets and errors of the batches that run with failures, and that failed last. */
function Failing() {
  const { client } = useSession();
  const { data, error } = useLoad(
    'failing',
    async () => {
      const [running, failed] = await Promise.all([
        client.listBatches({ status: 'processing', limit: 25 }),
        client.listBatches({ status: 'failed', limit: FAILING_MAX }),
      ]);
      const batches = [...running.batches.filter(({ stats }) => stats.failed > 0), ...failed.batches].slice(0, FAILING_MAX);
      const lists = await Promise.all(batches.map(({ id }) => client.listBatchTasks(id, { status: 'failed', limit: 50 })));
      return { batches, targets: targetsOf(lists) };
    },
    LIST_MS * 4,
  );
  return (
    <section aria-labelledby="failing">
      <h2 id="failing">Failing targets</h2>
      <ErrorNote text={error} />
      {data?.targets.length === 0 && <Empty title="Nothing failed of late" />}
      {data !== null && data.targets.length > 0 && (
        <div class="scroll">
          <table>
            <thead>
              <tr>
                <th scope="col">Target</th>
                <th scope="col">Why</th>
                <th scope="col" class="number">
                  Tasks
                </th>
              </tr>
            </thead>
            <tbody>
              {data.targets.map(({ origin, why, tasks }) => (
                <tr key={origin + why}>
                  <td>{origin}</td>
                  <td>{why}</td>
                  <td class="number">{count(tasks)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <ul class="list">
        {data?.batches.map((batch) => (
          <li key={batch.id}>
            <a href={`#/batches/${batch.id}`}>{batch.description ?? shortId(batch.id)}</a>
            <Status value={batch.status} />
            <span class="faint">
              {count(batch.stats.failed)} of {count(batch.stats.total)} · <When at={batch.updated_at} />
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function targetsOf(lists: readonly TaskList[]): { origin: string; why: string; tasks: number }[] {
  const found = new Map<string, { origin: string; why: string; tasks: number }>();
  for (const { target, result } of lists.flatMap(({ tasks }) => tasks)) {
    const { origin } = new URL(typeof target === 'string' ? target : target.url);
    const why = result?.status_code ? `answers ${result.status_code}` : (result?.error?.code ?? 'unknown');
    const key = `${origin} ${why}`;
    const one = found.get(key) ?? { origin, why, tasks: 0 };
    one.tasks += 1;
    found.set(key, one);
  }
  return [...found.values()].sort((a, b) => b.tasks - a.tasks).slice(0, 8);
}
