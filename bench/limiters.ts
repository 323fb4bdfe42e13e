// What letting tasks start costs, kind by kind, beside a library that decides one call at a time; no task is sent anywhere.
import type { Redis } from 'ioredis';
import { LIMITER_TYPES, type LimiterType } from '../src/schema/limiters/kinds.ts';
import { Lane } from '../test/helpers/lane.ts';
import type { Bench, Figures } from './lib/bench.ts';
import { LIMITER_CONFIGS } from './lib/limiter-configs.ts';
import { startPeer } from './lib/peer.ts';

/** Partitions that the engine does not have. */
const PARTITION = 1000;
const BATCH = 200;
const RANGE = 1000;

interface Cost {
  per_s: number;
  /** Of Redis's own time, for each decision. */
  redis_us: number;
}

export const limiterGrants: Bench = {
  name: 'limiter_grants',
  what: `starts granted by each kind of limiter, ${BATCH} a call, ranges of ${RANGE} and of one task; beside rate-limiter-flexible`,
  async run({ engine, smoke }) {
    const { redis } = engine;
    const decisions = smoke ? 2_000 : 60_000;
    const figures: Figures = {};
    for (const type of LIMITER_TYPES) {
      const ranges = await grants(redis, type, decisions, RANGE);
      figures[`${type}_per_s`] = ranges.per_s;
      figures[`${type}_redis_us`] = ranges.redis_us;
    }
    const singles = await grants(redis, 'window', decisions, 1);
    figures.window_singles_per_s = singles.per_s;
    figures.window_singles_redis_us = singles.redis_us;
    const peer = await decideOneByOne(engine.socket, decisions);
    figures.rate_limiter_flexible_per_s = peer.per_s;
    figures.rate_limiter_flexible_redis_us = peer.redis_us;
    return figures;
  },
};

/** Queues tasks and lets them start; what was sent to their batches is thrown away between the calls, unmeasured. */
async function grants(redis: Redis, type: LimiterType, tasks: number, per_range: number): Promise<Cost> {
  const now_us = 1_800_000_000_000_000;
  const lane = await Lane.create(redis, PARTITION, { type, config: LIMITER_CONFIGS[type], now_us });
  const batch = lane.newBatch(now_us);
  for (let from = 0; from < tasks; from += 500 * per_range) {
    const count = Math.min(500, Math.ceil((tasks - from) / per_range));
    const range = (i: number) => ({ batch, from: from + i * per_range, to: from + (i + 1) * per_range - 1, first_ms: now_us / 1000 });
    await lane.queue(now_us, ...Array.from({ length: count }, (_, i) => range(i)));
  }
  let granted = 0;
  let passed_ms = 0;
  let redis_us = 0;
  for (let call = 1; granted < tasks; call++) {
    const before_us = await scriptTime(redis);
    const from_ms = performance.now();
    const look = await lane.grantOnly(now_us + call * 1000, BATCH);
    passed_ms += performance.now() - from_ms;
    redis_us += (await scriptTime(redis)) - before_us;
    if (look === 0) throw new Error(`${type} grants nothing after ${granted} of ${tasks}`);
    granted += look;
    await lane.sent();
  }
  await lane.remove();
  return { per_s: (granted / passed_ms) * 1000, redis_us: redis_us / granted };
}

async function decideOneByOne(socket: string, decisions: number): Promise<Cost> {
  const peer = await startPeer('rate-limiter-flexible', socket);
  try {
    return await peer.ask<Cost>({ decisions });
  } finally {
    await peer.stop();
  }
}

/** Time that Redis has spent in scripts, µs. */
async function scriptTime(redis: Redis): Promise<number> {
  const text = await redis.info('commandstats');
  return [...text.matchAll(/^cmdstat_eval(?:sha)?:calls=\d+,usec=(\d+)/gm)].reduce((sum, [, us]) => sum + Number(us), 0);
}
