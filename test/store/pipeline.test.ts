// Our pipelines are those of ioredis, but for the getter that kept them in memory.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ChainableCommander, Cluster, Redis } from 'ioredis';
import { createLog } from '../../src/base/log.ts';
import { parseRedisUrl } from '../../src/store/address.ts';
import { openConnection } from '../../src/store/client.ts';
import type { RedisClient } from '../../src/store/script.ts';
import { startCluster } from '../helpers/cluster.ts';
import { startRedis } from '../helpers/redis.ts';

/** Fields that are functions, promises or a getter of each pipeline's own. */
const OF_EACH = ['length', 'promise', 'resolve', 'reject'];

function fieldsOf(pipeline: object): Record<string, unknown> {
  const names = Object.getOwnPropertyNames(pipeline).filter((name) => !OF_EACH.includes(name));
  return Object.fromEntries(names.sort().map((name) => [name, (pipeline as Record<string, unknown>)[name]]));
}

function isTheSame(ours: ChainableCommander, theirs: ChainableCommander): void {
  const [expected, actual] = [fieldsOf(theirs), fieldsOf(ours)];
  assert.deepEqual(Object.keys(actual), Object.keys(expected));
  for (const [name, value] of Object.entries(expected)) {
    if (name === 'redis' || name === 'options') assert.equal(actual[name], value, name);
    else assert.deepEqual(actual[name], value, name);
  }
  for (const name of OF_EACH) assert.ok(name in ours, name);
  assert.equal(Object.hasOwn(ours, 'length'), false, 'a getter of each pipeline’s own keeps it in memory');
  assert.ok(ours instanceof theirs.constructor);
}

function open(url: string): Promise<RedisClient> {
  return openConnection(parseRedisUrl(url), { role: 'test', log: createLog({ level: 'error' }) });
}

test('on one server: the same fields, replies in order, and a length', async () => {
  const redis = await open(`unix://${(await startRedis()).path}`);
  try {
    isTheSame(redis.pipeline(), Redis.prototype.pipeline.call(redis));
    const pipeline = redis.pipeline([['set', 'k', '1']]);
    pipeline.incr('k').callBuffer('GET', 'k');
    pipeline.lpush('k', 'x');
    assert.equal(pipeline.length, 4);
    const replies = (await pipeline.exec()) ?? [];
    assert.deepEqual(replies.slice(0, 3), [
      [null, 'OK'],
      [null, 2],
      [null, Buffer.from('2')],
    ]);
    assert.match(String(replies[3]?.[0]), /WRONGTYPE/);
    assert.equal(redis.pipeline().length, 0);
  } finally {
    redis.disconnect();
  }
});

test('on a Cluster: the same fields, and keys of one slot', async () => {
  const cluster = await open((await startCluster()).url);
  try {
    isTheSame(cluster.pipeline(), Cluster.prototype.pipeline.call(cluster));
    const pipeline = cluster.pipeline();
    pipeline.set('{t}:a', '1').incr('{t}:a');
    assert.deepEqual(await pipeline.exec(), [
      [null, 'OK'],
      [null, 2],
    ]);
    await assert.rejects(async () => cluster.pipeline().mget('a', 'b').exec(), /same slot/);
  } finally {
    cluster.disconnect();
  }
});
