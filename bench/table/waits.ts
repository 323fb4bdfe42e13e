// What one task waits for: alone from being sent to its callback, and beyond its time when it is due later.
import { pause } from '../lib/bench.ts';
import { Bullmq } from '../lib/bullmq.ts';
import { batchBody } from '../lib/payload.ts';
import { machineMs, type Receiver } from '../lib/receiver.ts';
import { percentile } from '../lib/stats.ts';
import { BYTES, exactly, type Ground, type Row, type Side, startStage, tableTask } from './row.ts';

const GAP_MS = 100;
const DUE_TASKS = 1_000;
const SETUP = { workers: 1, concurrency: 100, producers: 1, at_once: 1 };

export const latency: Row = {
  name: 'latency',
  what: 'POST /v1/tasks (BullMQ: add), one at a time, ten a second: from sending it to its callback',
  async sluice(ground) {
    const stage = await startStage(ground);
    const run = (count: number): Promise<number[]> =>
      oneByOne(ground.receiver, count, (url, i) => stage.api.createTask(JSON.stringify(tableTask(`${url}?sent=${machineMs()}`, i))));
    await run(ground.smoke ? 2 : 10);
    return { once: async () => percentiles(await run(ground.smoke ? 5 : 100)), close: () => stage.stop() };
  },
  peers: {
    async bullmq({ receiver, smoke }) {
      const peer = await Bullmq.start(receiver.origin, SETUP);
      const run = (count: number): Promise<number[]> => oneByOne(receiver, count, (url, i) => peer.addOne(url, i, BYTES));
      await run(smoke ? 2 : 10);
      return { once: async () => percentiles(await run(smoke ? 5 : 100)), close: () => peer.stop() };
    },
  },
  measures: [
    {
      ...{ number: '9', measure: 'latency at 10/s, POST → callback, p50, ms ÷ BullMQ', value: 'sluice/peer', better: 'lower' },
      ...{ sluice: 'sluice.p50_ms', peer: 'bullmq.p50_ms', must: 1, aim: 0.7 },
    },
    {
      ...{ number: '9', measure: 'the same, p99, ms ÷ BullMQ', value: 'sluice/peer', better: 'lower' },
      ...{ sluice: 'sluice.p99_ms', peer: 'bullmq.p99_ms', must: 0.8, aim: 0.5 },
    },
  ],
};

async function oneByOne(receiver: Receiver, count: number, send: (url: string, number: number) => Promise<void>): Promise<number[]> {
  await receiver.reset();
  for (let i = 0; i < count; i++) {
    const next_ms = performance.now() + GAP_MS;
    await Promise.all([send(`${receiver.origin}/hook`, i), receiver.received(i + 1)]);
    await pause(next_ms - performance.now());
  }
  return receiver.delays_ms();
}

function percentiles(delays_ms: readonly number[]): Record<string, number> {
  return { p50_ms: percentile(delays_ms, 0.5), p99_ms: percentile(delays_ms, 0.99) };
}

export const lateness: Row = {
  name: 'lateness',
  what: '1,000 tasks due at one moment, then 1,000 spread over five seconds: arrival after execute_after',
  async sluice(ground) {
    const stage = await startStage(ground);
    const { receiver } = ground;
    const park = async (first_ms: number, step_ms: number): Promise<void> => {
      const tasks = Array.from({ length: DUE_TASKS }, (_, i) => {
        const due_ms = first_ms + Math.round(i * step_ms);
        return tableTask(`${receiver.origin}/hook?due=${due_ms}`, i, { execute_after: new Date(due_ms).toISOString() });
      });
      await stage.api.createBatches([batchBody(tasks)]);
    };
    return { once: () => both(ground, park), close: () => stage.stop() };
  },
  peers: { bullmq },
  measures: [
    {
      ...{ number: '8', measure: 'lateness p99, 1,000 due at once, ms; BullMQ', value: 'sluice', better: 'lower' },
      ...{ sluice: 'sluice.at_once_p99_ms', peer: 'bullmq.at_once_p99_ms', must: 65, aim: 45 },
    },
    {
      ...{ number: '8', measure: 'lateness p99, spread over 5 s, ms; BullMQ', value: 'sluice', better: 'lower' },
      ...{ sluice: 'sluice.spread_p99_ms', peer: 'bullmq.spread_p99_ms', must: 5, aim: 3 },
    },
  ],
};

async function bullmq(ground: Ground): Promise<Side> {
  const { receiver } = ground;
  const peer = await Bullmq.start(receiver.origin, SETUP);
  const park = async (first_ms: number, step_ms: number): Promise<void> => {
    await peer.prepare(DUE_TASKS, `${receiver.origin}/hook`, BYTES, { first_ms, step_ms, in_url: true });
    await peer.add();
  };
  return { once: () => both(ground, park), close: () => peer.stop() };
}

async function both(
  { receiver, smoke }: Ground,
  park: (first_ms: number, step_ms: number) => Promise<void>,
): Promise<Record<string, number>> {
  const delays = async (over_ms: number): Promise<number[]> => {
    await receiver.reset();
    await park(Date.now() + (smoke ? 300 : 1_000), over_ms / DUE_TASKS);
    await receiver.received(DUE_TASKS);
    await exactly(receiver, DUE_TASKS);
    return receiver.delays_ms();
  };
  const at_once = await delays(0);
  const spread = await delays(smoke ? 500 : 5_000);
  return {
    at_once_p50_ms: percentile(at_once, 0.5),
    at_once_p99_ms: percentile(at_once, 0.99),
    spread_p50_ms: percentile(spread, 0.5),
    spread_p99_ms: percentile(spread, 0.99),
  };
}
