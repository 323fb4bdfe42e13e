// Adds jobs to BullMQ. What is added is built before, as the bodies for Sluice are.
import { FlowProducer, Queue } from 'bullmq';
import type { ProducerQuestion } from '../lib/bullmq.ts';
import { payload } from '../lib/payload.ts';
import { machineMs } from '../lib/receiver.ts';

const connection = { path: process.argv[2] ?? '' };
const queue = new Queue('tasks', { connection });
const flows = new FlowProducer({ connection });
await Promise.all([queue.waitUntilReady(), flows.waitUntilReady()]);

interface Prepared {
  name: string;
  data: { url: string; payload: object };
  /** When it is due, in milliseconds; null: at once. */
  due_ms: number | null;
}

const BULK = 1_000;
let prepared: Prepared[] = [];

async function answer(question: ProducerQuestion): Promise<object> {
  switch (question.type) {
    case 'prepare':
      prepared = Array.from({ length: question.count }, (_, i) => prepare(question, question.from + i));
      return { json_bytes: prepared.reduce((sum, { data }) => sum + JSON.stringify(data).length, 0) };
    case 'add':
      return { ms: await timed(() => addAll(question.at_once)) };
    case 'flow':
      return { ms: await timed(addFlow) };
    case 'one':
      await addOne(question);
      return {};
  }
}

function prepare({ url, bytes, due }: Extract<ProducerQuestion, { type: 'prepare' }>, number: number): Prepared {
  const due_ms = due === null ? null : due.first_ms + Math.round(number * due.step_ms);
  const own_url = due?.in_url === true ? `${url}?due=${due_ms}` : url;
  return { name: 'task', data: { url: own_url, payload: payload(number, bytes) }, due_ms };
}

async function addAll(at_once: number): Promise<void> {
  let next = 0;
  const adder = async (): Promise<void> => {
    while (next < prepared.length) {
      const from = next;
      next += BULK;
      await queue.addBulk(prepared.slice(from, from + BULK).map(job));
    }
  };
  await Promise.all(Array.from({ length: at_once }, adder));
}

function job({ name, data, due_ms }: Prepared): Parameters<Queue['addBulk']>[0][number] {
  if (due_ms === null) return { name, data };
  const timestamp = Date.now();
  return { name, data, opts: { timestamp, delay: due_ms - timestamp } };
}

/** One batch: a parent that waits for all of them. */
async function addFlow(): Promise<void> {
  const children = prepared.map(({ name, data }) => ({ name, data, queueName: 'tasks' }));
  await flows.add({ name: 'batch', queueName: 'batches', data: {}, children });
}

async function addOne({ url, number, bytes }: Extract<ProducerQuestion, { type: 'one' }>): Promise<void> {
  const data = { url: '', payload: payload(number, bytes) };
  data.url = `${url}?sent=${machineMs()}`;
  await queue.add('task', data);
}

async function timed(work: () => Promise<void>): Promise<number> {
  const from_ms = performance.now();
  await work();
  return performance.now() - from_ms;
}

process.on('message', async (question: ProducerQuestion) => process.send?.(await answer(question)));
process.send?.({ type: 'ready', port: 0 });
