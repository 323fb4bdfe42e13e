// A worker of BullMQ that makes the calls. Completed jobs are removed at once, which is its fastest.
import { Worker } from 'bullmq';
import type { WorkerSettings } from '../lib/bullmq.ts';
import { Caller } from './call.ts';

const { socket, origin, concurrency, auto_pipelining, limiter, parents } = JSON.parse(process.argv[2] ?? '') as WorkerSettings;
const caller = new Caller(origin, concurrency);
const connection = { path: socket, maxRetriesPerRequest: null, enableAutoPipelining: auto_pipelining };
const removeOnComplete = { count: 0 };

interface Data {
  url: string;
  payload: object;
}

const tasks = new Worker<Data>('tasks', (job) => caller.call(job.data.url, JSON.stringify(job.data.payload)), {
  connection,
  concurrency,
  removeOnComplete,
  ...(limiter === undefined ? {} : { limiter }),
});
tasks.on('failed', (_job, error) => fail(error));
tasks.on('error', fail);

// A parent starts when all of its children are completed: the end of a batch.
let ended = 0;
let onEnded = (): void => {};
if (parents) {
  const end = async (): Promise<void> => {
    ended += 1;
    onEnded();
  };
  await new Worker('batches', end, { connection, removeOnComplete }).on('error', fail).waitUntilReady();
}

function fail(error: Error): void {
  throw error;
}

/** Answered when a parent has started since the last question. */
process.on('message', () => {
  const answer = (): void => {
    if (ended === 0) return;
    ended = 0;
    onEnded = () => {};
    process.send?.({});
  };
  onEnded = answer;
  answer();
});

await tasks.waitUntilReady();
process.send?.({ type: 'ready', port: 0 });
