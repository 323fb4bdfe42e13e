// Creating alone: the tasks are due in an hour, so nothing but the creation happens. Also what a waiting task takes in
// Redis, and that beyond its own JSON as it was sent: below zero where neighbours share what is the same in them.
import { type Bench, cpuEach, cpuMark, type Figures, pause, type Stage } from './lib/bench.ts';
import { load } from './lib/load.ts';
import { batchBodies, task } from './lib/payload.ts';
import { medianOf } from './lib/stats.ts';

const AHEAD_MS = 3_600_000;
const WARM_UP = 5_000;
/** Until Redis has given back what it used along the way. */
const CALM_MS = 500;

interface Run {
  per_s: number;
  engine_us: number;
  redis_us: number;
  bytes: number;
  beyond_json: number;
}

export const createBatches: Bench = {
  name: 'create',
  once: true,
  what: 'tasks of 256 bytes in batches of 1,000, due in an hour',
  async run(stage) {
    const count = stage.smoke ? 5_000 : 100_000;
    const { origin } = stage.receiver;
    const parked = (n: number, url: (i: number) => string): Promise<Run> => createParked(stage, n, url);
    await parked(WARM_UP, () => `${origin}/hook`);
    const alike: Run[] = [];
    const unlike: Run[] = [];
    for (let i = 0; i < (stage.smoke ? 1 : 3); i++) {
      alike.push(await parked(count, () => `${origin}/hook`));
      unlike.push(await parked(count, (n) => `${origin}/hook/${n}`));
    }
    const named = Object.entries(costs(unlike)).map(([name, value]) => [`${name}_own_urls`, value]);
    return { tasks: count, ...costs(alike), ...(Object.fromEntries(named) as Figures) };
  },
};

async function createParked(stage: Stage, count: number, url: (index: number) => string): Promise<Run> {
  const bodies = batchBodies(url, count, { execute_after: ahead() });
  // {"tasks":[…]} and the commas are not part of a task.
  const json = bodies.reduce((sum, body) => sum + body.length - '{"tasks":[]}'.length + 1, -count) / count;
  return measured(stage, count, json, async () => {
    const from_ms = performance.now();
    await stage.api.createBatches(bodies);
    return (count / (performance.now() - from_ms)) * 1_000;
  });
}

export const createSingles: Bench = {
  name: 'single',
  once: true,
  what: 'POST /v1/tasks over 64 connections, due in an hour',
  async run(stage) {
    const count = stage.smoke ? 2_000 : 20_000;
    await parkSingles(stage, 1_000);
    const runs: Run[] = [];
    for (let i = 0; i < (stage.smoke ? 1 : 3); i++) runs.push(await parkSingles(stage, count));
    return { tasks: count, ...costs(runs) };
  },
};

async function parkSingles(stage: Stage, count: number): Promise<Run> {
  const { engine, receiver } = stage;
  const body = JSON.stringify(task(`${receiver.origin}/hook`, count, { execute_after: ahead() }));
  const headers = { authorization: `Bearer ${engine.token}`, 'content-type': 'application/json' };
  return measured(stage, count, body.length, async () => {
    const { requests, requests_s } = await load({ url: `${engine.url}/v1/tasks`, method: 'POST', headers, body }, { amount: count });
    if (requests !== count) throw new Error(`${requests} requests were sent where ${count} were asked for`);
    return requests_s;
  });
}

/** `work` creates `count` tasks of `json_bytes` each and returns how many a second. */
async function measured(stage: Stage, count: number, json_bytes: number, work: () => Promise<number>): Promise<Run> {
  const from_bytes = await stage.engine.kept_bytes();
  const cpu = cpuMark(stage);
  const per_s = await work();
  const each = cpuEach(cpu, cpuMark(stage), count);
  await pause(CALM_MS);
  const bytes = ((await stage.engine.kept_bytes()) - from_bytes) / count;
  return { per_s, engine_us: each.engine, redis_us: each.redis, bytes, beyond_json: bytes - json_bytes };
}

function costs(runs: readonly Run[]): Figures {
  return {
    tasks_per_s: medianOf(runs, (run) => run.per_s),
    engine_cpu_us: medianOf(runs, (run) => run.engine_us),
    redis_cpu_us: medianOf(runs, (run) => run.redis_us),
    redis_bytes: medianOf(runs, (run) => run.bytes),
    redis_bytes_beyond_json: medianOf(runs, (run) => run.beyond_json),
  };
}

function ahead(): string {
  return new Date(Date.now() + AHEAD_MS).toISOString();
}
