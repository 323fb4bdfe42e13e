// The race over schedules as long as it takes to meet what is rare, on a single Redis and on a Cluster.
import { test } from 'node:test';
import { race } from '../engine/schedules.ts';
import { startCluster } from '../helpers/cluster.ts';
import { startRedis } from '../helpers/redis.ts';

test('30 seconds of 200 schedules, and five kills', async (t) => {
  const { path } = await startRedis();
  const { runs, skipped } = await race({ redis_url: `unix://${path}`, schedules: 200, seconds: 30, kills: 5 });
  t.diagnostic(`${runs} runs, ${skipped} ticks skipped`);
});

test('the same on a Cluster', async (t) => {
  const cluster = await startCluster();
  const seeds = cluster.nodes.map(({ port }) => `127.0.0.1:${port}`).join(',');
  const { runs, skipped } = await race({ redis_url: `redis+cluster://${seeds}`, schedules: 200, seconds: 30, kills: 5 });
  t.diagnostic(`${runs} runs, ${skipped} ticks skipped`);
});
