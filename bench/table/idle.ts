// What it costs to have nothing to do.
import type { Redis } from 'ioredis';
import { pause } from '../lib/bench.ts';
import { Bullmq } from '../lib/bullmq.ts';
import { type Ground, type Row, type Side, startStage } from './row.ts';

/** After a start V8 gives memory back for half a minute, which takes an engine up to 3 % of a core. */
const CALM_MS = 40_000;

export const idle: Row = {
  name: 'idle',
  what: 'no work: Redis commands a second (those inside scripts too), CPU of one core',
  async sluice(ground) {
    const stage = await startStage(ground);
    const { engine } = stage;
    const cpu = (): [number, number] => [engine.cpu_s().engine, engine.cpu_s().redis];
    return side(ground, engine.redis, cpu, () => stage.stop());
  },
  peers: {
    async bullmq(ground) {
      const peer = await Bullmq.start(ground.receiver.origin, { workers: 1, concurrency: 100, producers: 0, at_once: 1 });
      const cpu = (): [number, number] => [peer.cpu_s().workers, peer.cpu_s().redis];
      return side(ground, peer.redis, cpu, () => peer.stop());
    },
  },
  measures: [
    {
      ...{ number: '15', measure: 'idle: Redis commands/s; a BullMQ worker', value: 'sluice', better: 'lower' },
      ...{ sluice: 'sluice.redis_commands_per_s', peer: 'bullmq.redis_commands_per_s', must: 20, aim: 5 },
    },
    {
      ...{ number: '15', measure: 'idle: CPU of one core, %; a BullMQ worker', value: 'sluice', better: 'lower' },
      ...{ sluice: 'sluice.cpu_percent', peer: 'bullmq.cpu_percent', must: 1, aim: 0.5 },
    },
    {
      ...{ number: '15', measure: 'idle: CPU of Redis, % of one core', value: 'sluice', better: 'lower', must: null, aim: null },
      ...{ sluice: 'sluice.redis_cpu_percent', peer: 'bullmq.redis_cpu_percent' },
    },
  ],
};

async function side({ smoke }: Ground, redis: Redis, cpu: () => [number, number], close: () => Promise<void>): Promise<Side> {
  await pause(smoke ? 0 : CALM_MS);
  const once = async (): Promise<Record<string, number>> => {
    const [working, store] = cpu();
    const before = await commands(redis);
    const from_ms = performance.now();
    await pause(smoke ? 500 : 10_000);
    const passed_s = (performance.now() - from_ms) / 1_000;
    // One is our own INFO.
    const sent = (await commands(redis)) - before - 1;
    const [working_to, store_to] = cpu();
    return {
      redis_commands_per_s: sent / passed_s,
      cpu_percent: ((working_to - working) / passed_s) * 100,
      redis_cpu_percent: ((store_to - store) / passed_s) * 100,
    };
  };
  return { once, close };
}

async function commands(redis: Redis): Promise<number> {
  return Number(/^total_commands_processed:(\d+)/m.exec(await redis.info('stats'))?.[1] ?? Number.NaN);
}
