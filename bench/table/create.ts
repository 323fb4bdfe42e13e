// Creating alone: everything is due in an hour, so nothing but the creation happens. Then what a waiting task takes in Redis
// beyond its own JSON as it was sent.
import type { Figures, Stage } from '../lib/bench.ts';
import { pause } from '../lib/bench.ts';
import { Bullmq, type BullmqSetup } from '../lib/bullmq.ts';
import { load } from '../lib/load.ts';
import { best } from '../lib/peer.ts';
import { BYTES, type Ground, HOUR_MS, type Row, type Side, startStage, tableBodies, tableTask } from './row.ts';

/** Until Redis has given back what it used along the way. */
const CALM_MS = 500;
const WARM_UP = 5_000;
const SETUPS: readonly BullmqSetup[] = [
  { workers: 0, concurrency: 1, producers: 1, at_once: 1 },
  { workers: 0, concurrency: 1, producers: 1, at_once: 4 },
  { workers: 0, concurrency: 1, producers: 2, at_once: 2 },
];

export const create: Row = {
  name: 'create',
  what: 'tasks of 200 bytes, due in an hour, in batches of 1,000 (BullMQ: addBulk of 1,000), then one by one; Redis bytes of each',
  sluice,
  peers: { bullmq },
  measures: [
    {
      ...{ number: '5', measure: 'create only, batches of 1,000, tasks/s ÷ addBulk', value: 'sluice/peer', better: 'higher' },
      ...{ sluice: 'sluice.tasks_per_s', peer: 'bullmq.tasks_per_s', must: 5, aim: 8 },
    },
    {
      ...{ number: '6', measure: 'Redis bytes a waiting task beyond its JSON, in batches; BullMQ', value: 'sluice', better: 'lower' },
      ...{ sluice: 'sluice.beyond_json_bytes', peer: 'bullmq.beyond_json_bytes', must: 120, aim: 75 },
    },
    {
      ...{ number: '6', measure: 'the same where each task has a URL of its own; BullMQ', value: 'sluice', better: 'lower' },
      ...{ sluice: 'sluice.beyond_json_bytes_own_urls', peer: 'bullmq.beyond_json_bytes', must: 120, aim: 75 },
    },
    {
      ...{ number: '6', measure: 'the same of 10,000 single tasks', value: 'sluice', better: 'lower', must: 160, aim: 90 },
      sluice: 'sluice.beyond_json_bytes_single',
    },
  ],
};

async function sluice(ground: Ground): Promise<Side> {
  const stage = await startStage(ground);
  const count = ground.smoke ? 2_000 : 100_000;
  const singles = ground.smoke ? 500 : 10_000;
  const parked = { execute_after: new Date(Date.now() + HOUR_MS).toISOString() };
  const url = `${stage.receiver.origin}/hook`;
  const bulk = async (bodies: readonly Buffer[], tasks: number): Promise<{ ms: number; beyond: number }> => {
    // {"tasks":[…]} and the commas are not part of a task.
    const json_bytes = bodies.reduce((sum, body) => sum + body.length - '{"tasks":[]}'.length + 1, -tasks);
    let ms = 0;
    const beyond = await beyondJson(stage, json_bytes, tasks, async () => {
      const from_ms = performance.now();
      await stage.api.createBatches(bodies);
      ms = performance.now() - from_ms;
    });
    return { ms, beyond };
  };
  const once = async (): Promise<Figures> => {
    const alike = await bulk(tableBodies(url, count, parked), count);
    const unlike = await bulk(ownUrls(url, count, parked), count);
    return {
      tasks_per_s: (count / alike.ms) * 1_000,
      tasks_per_s_own_urls: (count / unlike.ms) * 1_000,
      beyond_json_bytes: alike.beyond,
      beyond_json_bytes_own_urls: unlike.beyond,
      beyond_json_bytes_single: await parkSingles(stage, url, parked, singles),
    };
  };
  await bulk(tableBodies(url, Math.min(count, WARM_UP), parked), Math.min(count, WARM_UP));
  return { once, close: () => stage.stop() };
}

function ownUrls(url: string, count: number, fields: object): Buffer[] {
  return Array.from({ length: Math.ceil(count / 1_000) }, (_, batch) => {
    const tasks = Array.from({ length: 1_000 }, (_, i) => tableTask(`${url}/${batch * 1_000 + i}`, batch * 1_000 + i, fields));
    return Buffer.from(JSON.stringify({ tasks }));
  });
}

async function parkSingles(stage: Stage, url: string, parked: object, count: number): Promise<number> {
  const body = JSON.stringify(tableTask(url, 0, parked));
  const headers = { authorization: `Bearer ${stage.engine.token}`, 'content-type': 'application/json' };
  return beyondJson(stage, body.length * count, count, async () => {
    await load({ url: `${stage.engine.url}/v1/tasks`, method: 'POST', headers, body }, { amount: count });
  });
}

async function beyondJson({ engine }: Stage, json_bytes: number, count: number, work: () => Promise<void>): Promise<number> {
  const from_bytes = await engine.kept_bytes();
  await work();
  await pause(CALM_MS);
  return ((await engine.kept_bytes()) - from_bytes - json_bytes) / count;
}

async function bullmq({ receiver, smoke }: Ground): Promise<Side> {
  const count = smoke ? 2_000 : 100_000;
  const url = `${receiver.origin}/hook`;
  const run = async (peer: Bullmq, jobs: number): Promise<{ tasks_per_s: number; beyond_json_bytes: number }> => {
    await peer.redis.flushall();
    const json_bytes = await peer.prepare(jobs, url, BYTES);
    const from_bytes = await keptBytes(peer);
    const ms = await peer.add();
    await pause(CALM_MS);
    return { tasks_per_s: (jobs / ms) * 1_000, beyond_json_bytes: ((await keptBytes(peer)) - from_bytes - json_bytes) / jobs };
  };
  const [first, ...others] = SETUPS;
  if (first === undefined) throw new Error('there is no setup to try');
  const setup = await best(smoke ? [first] : [first, ...others], async (tried) => {
    const peer = await Bullmq.start(receiver.origin, tried);
    await run(peer, WARM_UP);
    const { tasks_per_s } = await run(peer, 40_000);
    await peer.stop();
    return tasks_per_s;
  });
  const peer = await Bullmq.start(receiver.origin, setup);
  await run(peer, Math.min(count, WARM_UP));
  return { once: () => run(peer, count), close: () => peer.stop() };
}

/** As Engine.kept_bytes. */
async function keptBytes({ redis }: Bullmq): Promise<number> {
  const text = await redis.info('memory');
  const number = (name: string): number => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(text)?.[1] ?? 0);
  return number('used_memory') - number('mem_clients_normal') - number('mem_aof_buffer');
}
