// Batches: newest first, by status and label; those that run move while one looks.
import { useState } from 'preact/hooks';
import type { BatchList } from '../../client/index.ts';
import { useSession } from '../context.ts';
import { isLive, newest, useFollow } from '../follow.ts';
import { count, shortId } from '../format.ts';
import { useLoad } from '../load.ts';
import { Empty, ErrorNote, Labels, Pager, Progress, Status, When } from '../parts.tsx';
import { goTo, useRoute } from '../route.ts';

type Item = BatchList['batches'][number];
type Filter = 'pending' | 'processing' | 'completed' | 'failed' | 'expired';

const FILTERS: readonly (Filter | '')[] = ['', 'pending', 'processing', 'completed', 'failed', 'expired'];
const LIMIT = 25;
const LIST_MS = 5_000;
/** So many rows follow their batch's stream; the rest moves with the list. */
const STREAMS_MAX = 6;

export function BatchesPage() {
  const { client } = useSession();
  const { filters } = useRoute();
  const shown = filters.toString();
  const [page, setPage] = useState({ of: shown, offset: 0 });
  // Other filters begin with their first page, however they came about.
  const offset = page.of === shown ? page.offset : 0;
  const [typed, setTyped] = useState<string | null>(null);
  const status = (filters.get('status') ?? '') as Filter | '';
  const label = filters.get('label') ?? '';
  const query = { limit: LIMIT, offset, ...(status === '' ? {} : { status }), ...(labelOf(label) ?? {}) };
  const { data, error, again } = useLoad<BatchList>(JSON.stringify(query), () => client.listBatches(query), LIST_MS);
  const filter = (name: string, value: string): void => {
    const next = new URLSearchParams(filters);
    if (value === '') next.delete(name);
    else next.set(name, value);
    goTo(`#/batches?${next}`);
  };
  const running = data?.batches.filter((batch) => isLive(batch.status)).slice(0, STREAMS_MAX) ?? [];
  return (
    <>
      <div class="title">
        <h1>Batches {data !== null && <span class="faint">{count(data.total)}</span>}</h1>
        <a class="button" href="#/batches/new">
          New batch
        </a>
      </div>
      <div class="filters">
        <label>
          Status
          <select value={status} onChange={({ currentTarget }) => filter('status', currentTarget.value)}>
            {FILTERS.map((value) => (
              <option key={value} value={value}>
                {value === '' ? 'all' : value}
              </option>
            ))}
          </select>
        </label>
        <label>
          Label
          <input
            placeholder="key=value"
            value={typed ?? label}
            onInput={({ currentTarget }) => setTyped(currentTarget.value)}
            onChange={({ currentTarget }) => {
              setTyped(null);
              filter('label', currentTarget.value.trim());
            }}
          />
        </label>
      </div>
      <ErrorNote
        text={label === '' || labelOf(label) !== null ? error : 'A label is asked for as key=value. Batches of all labels are shown.'}
      />
      {data?.total === 0 && <NoBatches filtered={status !== '' || label !== ''} />}
      {data !== null && data.batches.length > 0 && (
        <div class="scroll">
          <table>
            <thead>
              <tr>
                <th scope="col">Batch</th>
                <th scope="col">Status</th>
                <th scope="col" class="wide">
                  Progress
                </th>
                <th scope="col" class="number">
                  Tasks
                </th>
                <th scope="col" class="number">
                  Failed
                </th>
                <th scope="col">Created</th>
              </tr>
            </thead>
            <tbody>
              {data.batches.map((batch) => (
                <Row key={batch.id} batch={batch} live={running.includes(batch)} onEnd={again} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {data !== null && (
        <Pager total={data.total} limit={LIMIT} offset={offset} onOffset={(next) => setPage({ of: shown, offset: next })} />
      )}
    </>
  );
}

/** `key=value` as the query takes it; null where it is anything else. */
function labelOf(text: string): Record<string, string> | null {
  const [, key, value] = /^([a-z0-9_.-]+)=(.+)$/.exec(text) ?? [];
  return key === undefined || value === undefined ? null : { [`label.${key}`]: value };
}

function NoBatches({ filtered }: { filtered: boolean }) {
  if (filtered) return <Empty title="No batch is like this" />;
  return (
    <Empty title="No batches yet">
      <p>A batch is a group of HTTP calls that Sluice makes for you, counts, retries and reports on.</p>
      <p>
        <a class="button" href="#/batches/new">
          Create the first one
        </a>
      </p>
    </Empty>
  );
}

function Row({ batch, live, onEnd }: { batch: Item; live: boolean; onEnd(): void }) {
  const { progress } = useFollow(batch.id, live, onEnd);
  const { status, stats } = newest(batch, progress);
  return (
    <tr>
      <td class="name">
        <a class="clamped" href={`#/batches/${batch.id}`}>
          {batch.description ?? shortId(batch.id)}
        </a>
        <Labels labels={batch.labels} />
      </td>
      <td>
        <Status value={status} />
      </td>
      <td class="wide">
        <Progress stats={stats} />
      </td>
      <td class="number">{count(stats.total)}</td>
      <td class="number">{count(stats.failed)}</td>
      <td>
        <When at={batch.created_at} />
      </td>
    </tr>
  );
}
