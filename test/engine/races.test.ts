// One key sent by many at one moment. Other races are rows of the fault matrix: the end of a batch (27), a death within a create (3).
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { api } from '../helpers/api.ts';
import { startEngine, TOKENS } from '../helpers/engine.ts';
import { startReceiver } from '../helpers/receiver.ts';
import { startRedis } from '../helpers/redis.ts';
import { freshPath, tasksFor } from './stage.ts';

const receiver = await startReceiver();

test('a hundred creates at once with one key make one batch', async () => {
  const redis = await startRedis();
  const engines = await Promise.all([0, 1].map(() => startEngine({ redis_url: `unix://${redis.path}` })));
  const clients = engines.map((engine) => api(engine, TOKENS.acme));
  const url = receiver.at(freshPath(), {});
  const ask = { body: { tasks: tasksFor(url, 50) }, headers: { 'idempotency-key': 'one' } };
  const replies = await Promise.all(
    Array.from({ length: 100 }, (_, i) => (clients[i % 2] ?? assert.fail('two engines')).ask('POST', '/v1/batches', ask)),
  );
  // One that is under way is told so.
  assert.deepEqual(
    [...new Set(replies.map(({ status }) => status))].filter((status) => status !== 409),
    [201],
    'answers',
  );
  const ids = new Set(replies.filter(({ status }) => status === 201).map(({ json }) => (json as { id: string }).id));
  assert.equal(ids.size, 1, 'batches that were told');
  assert.equal((await clients[0]?.batches())?.batches.length, 1, 'batches that there are');
});
