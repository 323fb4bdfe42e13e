// A stream thread: watches the batches that the main thread names and makes the frames of their streams.
import type { MessagePort } from 'node:worker_threads';
import { type BatchDoc, batchView, progressView, taskEndView } from './api/present.ts';
import { createLog } from './base/log.ts';
import type { LogLevel } from './base/log-level.ts';
import { countFailedCalls } from './failed-calls.ts';
import { watchLoop } from './metrics/loop.ts';
import { createMetrics } from './metrics/registry.ts';
import { type ConnectionSpec, joinStore } from './store/connect.ts';
import type { Places } from './store/streams.ts';
import type { FromStreamThread, ToStreamThread } from './streams/messages.ts';
import { StreamShard } from './streams/shard.ts';
import type { Views } from './streams/watch.ts';
import type { JobInput } from './threads/pool.ts';

/** What the main thread gives a stream thread; structured-cloneable. */
export interface StreamThreadData {
  index: number;
  connection: ConnectionSpec;
  partitions: number;
  places: Places;
  look_ms: number;
  log_level: LogLevel;
}

const SNAPSHOT_MS = 1_000;

const VIEWS: Views = {
  batch: (row) => batchView(row, JSON.parse(row.doc) as BatchDoc),
  progress: progressView,
  task: taskEndView,
};

export default async function run({ data, port }: JobInput<StreamThreadData>): Promise<void> {
  const thread = `streams/${data.index}`;
  const log = createLog({ level: data.log_level, fields: { thread } });
  const store = await joinStore({ connection: data.connection, partitions: data.partitions, log, role: 'streams' });
  const metrics = createMetrics();
  countFailedCalls(metrics, store.client);
  const stopWatching = watchLoop(metrics, thread);
  const post = (message: FromStreamThread, moved: ArrayBuffer[]): void => port.postMessage(message, moved);
  const shard: StreamShard = new StreamShard({
    client: store.client,
    hints: store.subscriber({ onGap: (channel) => shard.heardAgain(channel) }),
    views: VIEWS,
    places: data.places,
    look_ms: data.look_ms,
    post,
    log,
  });
  const posting = setInterval(() => {
    const snapshot = metrics.news();
    if (snapshot !== null) post({ type: 'metrics', snapshot }, []);
  }, SNAPSHOT_MS);
  await untilStop(port, shard);
  await shard.stop();
  clearInterval(posting);
  stopWatching();
  await store.close();
}

/** Follows what the main thread says, until it says stop. */
function untilStop(port: MessagePort, shard: StreamShard): Promise<void> {
  return new Promise((stop) => {
    port.on('message', (message: ToStreamThread) => {
      if (message.type === 'stop') stop();
      else shard.hear(message);
    });
    port.postMessage({ type: 'ready' });
  });
}
