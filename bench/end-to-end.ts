// From the first POST until every callback is counted and every batch is completed; beside it, in turns and against the
// same receiver, a bare loop that only sends. The ratio of the two is the figure that carries over to other machines.
import type { BareAnswer, BareQuestion } from './lib/bare.process.ts';
import { type Bench, cpuEach, cpuMark, type Figures, type Stage } from './lib/bench.ts';
import { batchBodies } from './lib/payload.ts';
import { Helper } from './lib/process.ts';
import { median, medianOf } from './lib/stats.ts';

const WARM_UP = 5_000;
/** The last batches are looked at until they are completed; the others are verified when the time is taken. */
const WATCHED = 3;

interface BareRun {
  requests_s: number;
  cpu_us: number;
}

interface Run {
  /** Requests that came in; a run where these are not as many as tasks fails. */
  calls: number;
  tasks_s: number;
  engine_us: number;
  redis_us: number;
  receiver_us: number;
}

export const endToEnd: Bench = {
  name: 'end_to_end',
  once: true,
  what: 'tasks of 256 bytes in batches of 1,000: created, called, counted',
  async run(stage) {
    const count = stage.smoke ? 5_000 : 100_000;
    const repeats = stage.smoke ? 1 : 5;
    const bare = await Helper.start(new URL('./lib/bare.process.ts', import.meta.url), [stage.receiver.origin]);
    try {
      await callBare(stage, bare, WARM_UP);
      await callThrough(stage, WARM_UP);
      const alone: BareRun[] = [];
      const runs: Run[] = [];
      for (let i = 0; i < repeats; i++) {
        alone.push(await callBare(stage, bare, count));
        runs.push(await callThrough(stage, count));
      }
      return figures(count, alone, runs);
    } finally {
      await bare.stop();
    }
  },
};

function figures(tasks: number, alone: readonly BareRun[], runs: readonly Run[]): Figures {
  const engine_us = medianOf(runs, (run) => run.engine_us);
  const redis_us = medianOf(runs, (run) => run.redis_us);
  return {
    tasks,
    calls: medianOf(runs, (run) => run.calls),
    tasks_per_s: medianOf(runs, (run) => run.tasks_s),
    bare_requests_per_s: medianOf(alone, (run) => run.requests_s),
    ratio_to_bare: median(runs.map((run, i) => run.tasks_s / (alone[i]?.requests_s ?? Number.NaN))),
    engine_cpu_us: engine_us,
    redis_cpu_us: redis_us,
    total_cpu_us: engine_us + redis_us,
    bare_cpu_us: medianOf(alone, (run) => run.cpu_us),
    receiver_cpu_us: medianOf(runs, (run) => run.receiver_us),
  };
}

async function callBare({ receiver }: Stage, bare: Helper, count: number): Promise<BareRun> {
  await receiver.reset();
  const from_s = bare.cpu_s();
  const question: BareQuestion = { count };
  const { ms } = await bare.ask<BareAnswer>(question);
  const cpu_us = ((bare.cpu_s() - from_s) * 1e6) / count;
  await exactly(receiver, count);
  return { requests_s: (count / ms) * 1_000, cpu_us };
}

async function callThrough(stage: Stage, count: number): Promise<Run> {
  const { api, receiver } = stage;
  const bodies = batchBodies(() => `${receiver.origin}/hook`, count);
  await receiver.reset();
  const cpu = cpuMark(stage);
  const from_ms = performance.now();
  const [ids] = await Promise.all([api.createBatches(bodies), receiver.received(count)]);
  await api.completed(ids.slice(-WATCHED));
  const ms = performance.now() - from_ms;
  const each = cpuEach(cpu, cpuMark(stage), count);
  const completed = await api.completed(ids);
  if (completed !== count) throw new Error(`${completed} of ${count} tasks are completed`);
  const calls = await exactly(receiver, count);
  return { calls, tasks_s: (count / ms) * 1_000, engine_us: each.engine, redis_us: each.redis, receiver_us: each.receiver };
}

async function exactly(receiver: Stage['receiver'], count: number): Promise<number> {
  const received = await receiver.count();
  if (received !== count) throw new Error(`${received} requests came in where ${count} were expected`);
  return received;
}
