// What one task waits for: alone from POST to callback, and beyond its time when it is due later.
import { type Bench, pause, type Stage } from './lib/bench.ts';
import { batchBody, task } from './lib/payload.ts';
import { CLOCK, Poster } from './lib/poster.ts';
import { percentile } from './lib/stats.ts';

const GAP_MS = 100;

export const latency: Bench = {
  name: 'latency',
  what: 'POST /v1/tasks, one at a time, ten a second: from its first byte to its callback',
  async run({ engine, receiver, smoke }) {
    const count = smoke ? 20 : 100;
    const poster = new Poster(engine.url);
    await receiver.reset();
    for (let i = 0; i < count; i++) {
      const next_ms = performance.now() + GAP_MS;
      const body = JSON.stringify(task(`${receiver.origin}/hook?sent=${CLOCK}`, i));
      await poster.send(Poster.prepare('/v1/tasks', engine.token, body));
      await receiver.received(i + 1);
      await pause(next_ms - performance.now());
    }
    poster.close();
    const delays_ms = await receiver.delays_ms();
    return { tasks: delays_ms.length, p50_ms: percentile(delays_ms, 0.5), p99_ms: percentile(delays_ms, 0.99) };
  },
};

const DUE_TASKS = 1_000;

export const lateness: Bench = {
  name: 'lateness',
  what: '1,000 tasks due at one moment, then 1,000 spread over five seconds: arrival after execute_after',
  async run(stage) {
    const lead_ms = stage.smoke ? 1_000 : 2_000;
    const at_once = await delaysOf(stage, lead_ms, 0);
    const spread = await delaysOf(stage, lead_ms, stage.smoke ? 1_000 : 5_000);
    return {
      tasks: at_once.length,
      at_once_p50_ms: percentile(at_once, 0.5),
      at_once_p99_ms: percentile(at_once, 0.99),
      spread_p50_ms: percentile(spread, 0.5),
      spread_p99_ms: percentile(spread, 0.99),
      // Below zero would be a task that ran before its time.
      earliest_ms: Math.min(...at_once, ...spread),
    };
  },
};

/** One batch whose tasks are due from `lead_ms` from now on, evenly over `over_ms`. */
async function delaysOf({ api, receiver }: Stage, lead_ms: number, over_ms: number): Promise<number[]> {
  await receiver.reset();
  const first_ms = Date.now() + lead_ms;
  const tasks = Array.from({ length: DUE_TASKS }, (_, i) => {
    const due_ms = first_ms + Math.round((i * over_ms) / DUE_TASKS);
    return task(`${receiver.origin}/hook?due=${due_ms}`, i, { execute_after: new Date(due_ms).toISOString() });
  });
  await api.createBatches([batchBody(tasks)]);
  await receiver.received(DUE_TASKS);
  return receiver.delays_ms();
}
