// BullMQ's job schedulers with a worker that makes the calls; made and removed on demand.
import { Queue, Worker } from 'bullmq';
import { Pool } from 'undici';
import type { SchedulesQuestion } from '../schedules.ts';

const [, , socket = '', origin = ''] = process.argv;
const queue = new Queue('bench', { connection: { path: socket } });
const pool = new Pool(origin, { connections: 256 });
let worker: Worker | null = null;

async function make({ count, pattern, path, payload }: Extract<SchedulesQuestion, { type: 'make' }>): Promise<void> {
  for (let i = 0; i < count; i += 100) {
    const upsert = (k: number) => queue.upsertJobScheduler(`s${i + k}`, { pattern, tz: 'UTC' }, { name: 'call', data: payload });
    await Promise.all(Array.from({ length: 100 }, (_, k) => upsert(k)));
  }
  const call = async (): Promise<void> => {
    const response = await pool.request({ method: 'POST', path, body: JSON.stringify(payload) });
    await response.body.dump();
  };
  worker = new Worker('bench', call, { connection: { path: socket, maxRetriesPerRequest: null }, concurrency: count });
  await worker.waitUntilReady();
}

async function remove(): Promise<void> {
  await worker?.close();
  await queue.obliterate({ force: true });
}

process.on('message', async (question: SchedulesQuestion) => {
  if (question.type === 'make') await make(question);
  else await remove();
  process.send?.({});
});
process.send?.({ type: 'ready', port: 0 });
