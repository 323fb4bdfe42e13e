// Many jobs of BullMQ that wait for a limiter, and a worker that only counts; everything else is not in the way.
import { Queue, Worker } from 'bullmq';
import { payload } from '../lib/payload.ts';
import type { WaitingQuestion } from '../limiter-rates.ts';

const connection = { path: process.argv[2] ?? '', maxRetriesPerRequest: null };
/** Jobs that it is given in one call. */
const BULK = 1_000;
let started = 0;

async function fill(waiting: number, per_s: number): Promise<void> {
  const queue = new Queue('bench', { connection });
  for (let from = 0; from < waiting; from += BULK) {
    const count = Math.min(BULK, waiting - from);
    await queue.addBulk(Array.from({ length: count }, (_, i) => ({ name: 'task', data: payload(from + i) })));
  }
  const work = async (): Promise<void> => {
    started++;
  };
  await new Worker('bench', work, { connection, concurrency: 64, limiter: { max: per_s, duration: 1_000 } }).waitUntilReady();
}

process.on('message', async (question: WaitingQuestion) => {
  if (question.type === 'fill') await fill(question.waiting, question.per_s);
  process.send?.({ started });
});
process.send?.({ type: 'ready', port: 0 });
