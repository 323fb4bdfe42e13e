// What one task waits for: from POST to callback, alone and under load, and beyond its time when it is due later.
import { type Bench, type Figures, pause, type Stage } from './lib/bench.ts';
import { batchBody, task } from './lib/payload.ts';
import { CLOCK, Poster } from './lib/poster.ts';
import { machineMs } from './lib/receiver.ts';
import { percentile } from './lib/stats.ts';

/** Tasks posted a second, over so many connections, for so long. */
interface Load {
  name: string;
  per_s: number;
  connections: number;
  seconds: number;
}

const ALONE: Load = { name: '', per_s: 10, connections: 1, seconds: 10 };
const LOADS: readonly Load[] = [
  ALONE,
  { name: 'at_500_', per_s: 500, connections: 16, seconds: 5 },
  { name: 'at_2000_', per_s: 2_000, connections: 64, seconds: 5 },
];
const ROUNDS = 5;

export const latency: Bench = {
  name: 'latency',
  once: true,
  what: 'POST /v1/tasks, from its first byte to its callback: ten a second, one at a time; 500 and 2,000 a second, from when each was to be sent; all rounds together',
  async run(stage) {
    const delays = new Map(LOADS.map((load) => [load, [] as number[]]));
    for (let round = 0; round < (stage.smoke ? 1 : ROUNDS); round++) {
      for (const [load, all] of delays) all.push(...(await delaysUnder(stage, stage.smoke ? { ...load, seconds: 0.5 } : load)));
    }
    const figures: Figures = {};
    for (const [{ name }, all] of delays) {
      figures[`${name}tasks`] = all.length;
      for (const [label, share] of [
        ['p50', 0.5],
        ['p99', 0.99],
        ['p99_9', 0.999],
      ] as const)
        figures[`${name}${label}_ms`] = percentile(all, share);
    }
    return figures;
  },
};

/** Each is sent at its time, or as soon as its connection is free: what waits for that is late, and counts as such. */
async function delaysUnder({ engine, receiver }: Stage, { per_s, connections, seconds }: Load): Promise<number[]> {
  const posters = Array.from({ length: connections }, () => new Poster(engine.url));
  const count = Math.ceil(per_s * seconds);
  await receiver.reset();
  const first_ms = machineMs() + 100;
  await Promise.all(
    posters.map(async (poster, at) => {
      for (let i = at; i < count; i += connections) {
        const body = JSON.stringify(task(`${receiver.origin}/hook?sent=${CLOCK}`, i));
        const request = Poster.prepare('/v1/tasks', engine.token, body);
        const due_ms = first_ms + (i * 1_000) / per_s;
        await pause(due_ms - machineMs());
        // A timer may be early, and nothing is sent before its time.
        await poster.send(request, Math.min(due_ms, machineMs()));
      }
    }),
  );
  await receiver.received(count);
  for (const poster of posters) poster.close();
  return receiver.delays_ms();
}

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
