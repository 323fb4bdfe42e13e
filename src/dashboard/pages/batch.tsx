// One batch: how far it is, what became of its tasks, what was told to whom; and what can be done about it.
import { useState } from 'preact/hooks';
import type { Batch } from '../../client/index.ts';
import { useSession } from '../context.ts';
import { isLive, newest, useFollow } from '../follow.ts';
import { count, hours, shortId, tasks } from '../format.ts';
import { useLoad } from '../load.ts';
import { Action, ErrorNote, Fact, Labels, Progress, Status, When } from '../parts.tsx';
import { goTo } from '../route.ts';
import { messageOf } from '../session.ts';
import { Notifications } from './batch-notifications.tsx';
import { Tasks } from './batch-tasks.tsx';

const EVERY_MS = 5_000;

interface Shown {
  batch: Batch | null;
  /** Whether what is shown moves by itself. */
  streamed: boolean;
  /** Why the batch cannot be had; while its stream is open it can. */
  error: string | null;
  /** Changes when what belongs to the batch is to be asked for again. */
  version: string;
  again(): void;
}

/** The batch as it was asked for, moved on by its stream until it has ended. */
function useBatch(id: string): Shown {
  const { client } = useSession();
  const [asking, setAsking] = useState(true);
  const { data, error, again } = useLoad<Batch>(id, () => client.getBatch(id), asking ? EVERY_MS : null);
  const live = data !== null && isLive(data.status);
  const { progress, connected, reconnects } = useFollow(id, live, again);
  const ask = live && !connected;
  if (asking !== ask) setAsking(ask);
  if (data === null) return { batch: null, streamed: false, error, version: '', again };
  const batch = newest(data, progress);
  const { status, stats } = batch;
  const version = `${status} ${stats.total} ${stats.pending} ${reconnects}`;
  return { batch, streamed: connected, error: connected ? null : error, version, again };
}

export function BatchPage({ id }: { id: string }) {
  const { batch, streamed, error, version, again } = useBatch(id);
  if (batch === null) return error === null ? <p class="faint">Loading…</p> : <ErrorNote text={error} />;
  const { stats } = batch;
  const live = isLive(batch.status);
  return (
    <>
      <p class="crumb">
        <a href="#/batches">Batches</a> / <code>{shortId(id)}</code>
      </p>
      <Title batch={batch} streamed={streamed} onChange={again} />
      <ErrorNote text={error} />
      <Progress stats={stats} />
      <dl class="tiles">
        {(['total', 'pending', 'completed', 'failed', 'cancelled'] as const).map((name) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{count(stats[name])}</dd>
          </div>
        ))}
        <div>
          <dt>completion</dt>
          <dd>{batch.completion_rate} %</dd>
        </div>
      </dl>
      <Facts batch={batch} />
      <Tasks id={id} live={live} retryable={batch.status !== 'cancelled'} version={version} onChange={again} />
      <Notifications batch={batch} version={version} />
    </>
  );
}

function Title({ batch, streamed, onChange }: { batch: Batch; streamed: boolean; onChange(): void }) {
  const { client } = useSession();
  const { id, stats, options } = batch;
  const [failure, setFailure] = useState<string | null>(null);
  const live = isLive(batch.status);
  const onDone = (): void => {
    setFailure(null);
    onChange();
  };
  const onError = (thrown: unknown): void => setFailure(messageOf(thrown));
  return (
    <>
      <div class="title">
        <h1>{batch.description ?? 'Batch'}</h1>
        <Status value={batch.status} />
        {streamed && (
          <span class="live" title="What happens is shown as it happens.">
            live
          </span>
        )}
        <div class="actions">
          {live && options.hold && <Action label="Release" run={() => client.releaseBatch(id)} onDone={onDone} onError={onError} />}
          {live && (
            <Action
              label="Cancel"
              question={`Cancel what has not finished, ${tasks(stats.pending)}? Running ones finish.`}
              run={() => client.cancelBatch(id)}
              onDone={onDone}
              onError={onError}
            />
          )}
          {(batch.status === 'failed' || batch.status === 'expired') && stats.failed > 0 && (
            <Action label={`Retry ${count(stats.failed)} failed`} run={() => client.retryBatch(id)} onDone={onDone} onError={onError} />
          )}
          {!live && (
            <Action
              label="Delete"
              question="Delete this batch and its tasks? Notifications that have not been delivered are dropped."
              run={() => client.deleteBatch(id)}
              onDone={() => goTo('#/batches')}
              onError={onError}
            />
          )}
        </div>
      </div>
      <ErrorNote text={failure} />
    </>
  );
}

function Facts({ batch }: { batch: Batch }) {
  const { options, labels = {} } = batch;
  return (
    <dl class="facts">
      <Fact name="Id">
        <code>{batch.id}</code>
      </Fact>
      <Fact name="Created">
        <When at={batch.created_at} />
      </Fact>
      <Fact name="Changed">
        <When at={batch.updated_at} />
      </Fact>
      <Fact name="Expires after">{hours(options.expiration)}</Fact>
      {options.hold && <Fact name="Held">until it is released</Fact>}
      {Object.keys(labels).length > 0 && (
        <Fact name="Labels">
          <Labels labels={labels} />
        </Fact>
      )}
    </dl>
  );
}
