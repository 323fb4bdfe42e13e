// Calls of scripts that fail are counted, one by one and in pipelines: src/failed-calls.ts.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Redis } from 'ioredis';
import { countFailedCalls } from '../../src/failed-calls.ts';
import { createMetrics } from '../../src/metrics/registry.ts';
import { keys } from '../../src/store/keys.ts';
import { execPipeline, type RedisClient } from '../../src/store/script.ts';
import { partitionLook } from '../../src/store/scripts.gen.ts';
import { startRedis } from '../helpers/redis.ts';

const { redis, path } = await startRedis();

function counting(client: RedisClient): () => Promise<string[]> {
  const metrics = createMetrics();
  countFailedCalls(metrics, client);
  return async () => (await metrics.text()).match(/^sluice_redis_errors_total\{.*$/gm) ?? [];
}

const ASKED = { kinds: '', lanes: [] };
const call = (client: RedisClient): Promise<unknown> => partitionLook.call(client, { meta: keys.partition(0) }, ASKED);

async function piped(client: RedisClient): Promise<unknown> {
  const pipeline = client.pipeline();
  partitionLook.queue(pipeline, { meta: keys.partition(0) }, ASKED);
  const [reply] = await execPipeline(client, pipeline);
  if (reply?.[0] != null) throw reply[0];
  return reply?.[1];
}

for (const [how, run] of Object.entries({ 'one by one': call, 'in a pipeline': piped })) {
  test(`calls that fail are counted by what that means, ${how}`, async (t) => {
    await redis.flushall();
    const client = new Redis({ path });
    t.after(() => client.disconnect());
    const counted = counting(client);
    await run(client);
    assert.deepEqual(await counted(), ['sluice_redis_errors_total{kind="unavailable"} 0', 'sluice_redis_errors_total{kind="other"} 0']);
    // Of the wrong type, for a script that the server has to be sent first.
    await redis.script('FLUSH');
    await redis.set(keys.partition(0), 'x');
    await assert.rejects(run(client), /WRONGTYPE/);
    assert.deepEqual(await counted(), ['sluice_redis_errors_total{kind="unavailable"} 0', 'sluice_redis_errors_total{kind="other"} 1']);
    client.disconnect();
    await assert.rejects(run(client), /Connection is closed/);
    assert.deepEqual(await counted(), ['sluice_redis_errors_total{kind="unavailable"} 1', 'sluice_redis_errors_total{kind="other"} 1']);
  });
}
