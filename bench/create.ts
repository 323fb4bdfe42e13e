// Creating alone: the tasks are due in an hour, so nothing but the creation happens. Also what a waiting task costs in
// Redis beyond its own JSON.
import { type Bench, cpuEach, cpuMark, pause, type Stage } from './lib/bench.ts';
import { load } from './lib/load.ts';
import { BATCH_TASKS, batchBodies, task } from './lib/payload.ts';
import { medianOf } from './lib/stats.ts';

const AHEAD_MS = 3_600_000;
/** Until Redis has given back what it used along the way. */
const CALM_MS = 500;

interface Run {
  tasks_s: number;
  engine_us: number;
  redis_us: number;
  bytes: number;
}

export const createBatches: Bench = {
  name: 'create',
  what: 'tasks in batches of 1,000, due in an hour',
  async run(stage) {
    const count = stage.smoke ? 5_000 : 100_000;
    await createParked(stage, BATCH_TASKS * 5);
    const runs: Run[] = [];
    for (let i = 0; i < (stage.smoke ? 1 : 3); i++) runs.push(await createParked(stage, count));
    return { tasks: count, tasks_per_s: medianOf(runs, (run) => run.tasks_s), ...costs(runs) };
  },
};

async function createParked(stage: Stage, count: number): Promise<Run> {
  const { engine, api, receiver } = stage;
  const bodies = batchBodies(`${receiver.origin}/hook`, count, { execute_after: ahead() });
  const from_bytes = await engine.kept_bytes();
  const cpu = cpuMark(stage);
  const from_ms = performance.now();
  await api.createBatches(bodies);
  const ms = performance.now() - from_ms;
  const each = cpuEach(cpu, cpuMark(stage), count);
  await pause(CALM_MS);
  const kept = (await engine.kept_bytes()) - from_bytes;
  // {"tasks":[…]} and the commas are not part of a task.
  const json = bodies.reduce((sum, body) => sum + body.length - '{"tasks":[]}'.length + 1, -count);
  return { tasks_s: (count / ms) * 1_000, engine_us: each.engine, redis_us: each.redis, bytes: (kept - json) / count };
}

export const createSingles: Bench = {
  name: 'single',
  what: 'POST /v1/tasks over 64 connections, due in an hour',
  async run(stage) {
    const count = stage.smoke ? 2_000 : 50_000;
    await parkSingles(stage, 1_000);
    const runs: Run[] = [];
    for (let i = 0; i < (stage.smoke ? 1 : 3); i++) runs.push(await parkSingles(stage, count));
    return { tasks: count, requests_per_s: medianOf(runs, (run) => run.tasks_s), ...costs(runs) };
  },
};

async function parkSingles(stage: Stage, count: number): Promise<Run> {
  const { engine, receiver } = stage;
  const body = JSON.stringify(task(`${receiver.origin}/hook`, count, { execute_after: ahead() }));
  const headers = { authorization: `Bearer ${engine.token}`, 'content-type': 'application/json' };
  const from_bytes = await engine.kept_bytes();
  const cpu = cpuMark(stage);
  const { requests, requests_s } = await load({ url: `${engine.url}/v1/tasks`, method: 'POST', headers, body }, { amount: count });
  if (requests !== count) throw new Error(`${requests} requests were sent where ${count} were asked for`);
  const each = cpuEach(cpu, cpuMark(stage), count);
  await pause(CALM_MS);
  const bytes = ((await engine.kept_bytes()) - from_bytes) / count - body.length;
  return { tasks_s: requests_s, engine_us: each.engine, redis_us: each.redis, bytes };
}

function costs(runs: readonly Run[]): { bytes_beyond_json: number; engine_cpu_us: number; redis_cpu_us: number } {
  return {
    bytes_beyond_json: medianOf(runs, (run) => run.bytes),
    engine_cpu_us: medianOf(runs, (run) => run.engine_us),
    redis_cpu_us: medianOf(runs, (run) => run.redis_us),
  };
}

function ahead(): string {
  return new Date(Date.now() + AHEAD_MS).toISOString();
}
