// What a batch that tells of itself costs, and how soon it is known that it has ended.
import { type Bench, cpuEach, cpuMark, pause, type Stage } from './lib/bench.ts';
import { BATCH_TASKS, batchBodies, batchBody, task } from './lib/payload.ts';
import { median, medianOf, percentile } from './lib/stats.ts';

const WARM_UP = 2_000;
const CALLBACKS_PER_S = 1_000;
const SMALL_BATCH_TASKS = 10;

interface Run {
  /** Of what was waited for: notifications where there are any, else callbacks. */
  per_s: number;
  cpu_us: number;
}

export const notifications: Bench = {
  name: 'notifications',
  what: 'on_progress for each task and on_finish, beside the callbacks; and at 1,000 callbacks/s from the answer to the last task to on_finish',
  async run(stage) {
    const tasks = stage.smoke ? 2_000 : 20_000;
    await callAll(stage, WARM_UP, true);
    const quiet: Run[] = [];
    const telling: Run[] = [];
    for (let i = 0; i < (stage.smoke ? 1 : 3); i++) {
      quiet.push(await callAll(stage, tasks, false));
      telling.push(await callAll(stage, tasks, true));
    }
    const told = tasks + tasks / BATCH_TASKS;
    const finish = await finishDelays(stage, stage.smoke ? 1 : 30);
    return {
      notifications: told,
      notifications_per_s: medianOf(telling, ({ per_s }) => per_s),
      callbacks_per_s_without: medianOf(quiet, ({ per_s }) => per_s),
      engine_cpu_us_each: median(telling.map(({ cpu_us }, i) => (cpu_us - (quiet[i]?.cpu_us ?? Number.NaN)) / told)),
      finish_callbacks_per_s: finish.callbacks_per_s,
      finish_p50_ms: percentile(finish.delays_ms, 0.5),
      finish_p99_ms: percentile(finish.delays_ms, 0.99),
    };
  },
};

/** From the first POST until all callbacks, and all notifications where there are any, have come in. */
async function callAll(stage: Stage, tasks: number, telling: boolean): Promise<Run> {
  const { api, receiver } = stage;
  const hook = { url: `${receiver.origin}/hook` };
  const bodies = batchBodies(() => hook.url, tasks, {}, telling ? { notifications: { on_progress: hook, on_finish: hook } } : {});
  const told = telling ? tasks + bodies.length : 0;
  await receiver.reset();
  const cpu = cpuMark(stage);
  const from_ms = performance.now();
  const [ids] = await Promise.all([api.createBatches(bodies), receiver.received(tasks + told)]);
  const ms = performance.now() - from_ms;
  const { engine } = cpuEach(cpu, cpuMark(stage), 1);
  await api.completed(ids);
  return { per_s: ((told || tasks) / ms) * 1_000, cpu_us: engine };
}

/** A small batch every ten milliseconds. */
async function finishDelays({ api, receiver }: Stage, duration_s: number): Promise<{ callbacks_per_s: number; delays_ms: number[] }> {
  const count = (duration_s * CALLBACKS_PER_S) / SMALL_BATCH_TASKS;
  const bodies = Array.from({ length: count }, (_, group) => {
    const tasks = Array.from({ length: SMALL_BATCH_TASKS }, (_, i) => task(`${receiver.origin}/hook?task=${group}`, i));
    return batchBody(tasks, { notifications: { on_finish: { url: `${receiver.origin}/hook?finish=${group}` } } });
  });
  await receiver.reset();
  const received = receiver.received(count * (SMALL_BATCH_TASKS + 1));
  const creates: Promise<unknown>[] = [];
  const from_ms = performance.now();
  for (const [i, body] of bodies.entries()) {
    creates.push(api.createBatches([body]));
    await pause(from_ms + ((i + 1) * SMALL_BATCH_TASKS * 1_000) / CALLBACKS_PER_S - performance.now());
  }
  await Promise.all([received, ...creates]);
  const ms = performance.now() - from_ms;
  return { callbacks_per_s: (count * SMALL_BATCH_TASKS * 1_000) / ms, delays_ms: await receiver.delays_ms() };
}
