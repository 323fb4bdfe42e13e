// Decisions of rate-limiter-flexible, one a call, so many under way at once: its own pace over one connection.
import { Redis } from 'ioredis';
import { RateLimiterRedis } from 'rate-limiter-flexible';

const AT_ONCE = 64;
const UNITS = 1_000_000;

const redis = new Redis({ path: process.argv[2] ?? '' });
const limiter = new RateLimiterRedis({ storeClient: redis, keyPrefix: 'bench-limiter', points: UNITS, duration: 60 });

process.on('message', async ({ decisions }: { decisions: number }) => {
  const before_us = await scriptTime();
  const from_ms = performance.now();
  for (let done = 0; done < decisions; done += AT_ONCE) {
    await Promise.all(Array.from({ length: AT_ONCE }, () => limiter.consume('one')));
  }
  const passed_ms = performance.now() - from_ms;
  const redis_us = (await scriptTime()) - before_us;
  await limiter.delete('one');
  process.send?.({ per_s: (decisions / passed_ms) * 1_000, redis_us: redis_us / decisions });
});

/** Time that Redis has spent in scripts, µs. */
async function scriptTime(): Promise<number> {
  const text = await redis.info('commandstats');
  return [...text.matchAll(/^cmdstat_eval(?:sha)?:calls=\d+,usec=(\d+)/gm)].reduce((sum, [, us]) => sum + Number(us), 0);
}

process.send?.({ type: 'ready', port: 0 });
