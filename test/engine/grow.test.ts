// The number of partitions grows while two processes run: both use and own the new ones, and nothing that was there is lost.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ID_PREFIX, parseId, partitionOf } from '../../src/base/id.ts';
import { api } from '../helpers/api.ts';
import { startEngine, TOKENS } from '../helpers/engine.ts';
import { startReceiver } from '../helpers/receiver.ts';
import { startRedis, until } from '../helpers/redis.ts';

const FIRST = 2;
const GROWN = 8;
const KEYS = 24;

function partitionIn(id: string): number {
  return partitionOf(parseId(ID_PREFIX.batch, id) ?? assert.fail(id));
}

test('partitions grow while processes run', async () => {
  const { path } = await startRedis();
  const options = { redis_url: `unix://${path}`, env: { SLUICE_PARTITIONS: String(FIRST) } };
  const [one, two] = await Promise.all([startEngine(options), startEngine(options)]);
  const [first, second] = [api(one, TOKENS.acme), api(two, TOKENS.acme)];
  const url = (await startReceiver()).at('/hook', { status: 200 });
  const body = { tasks: [{ target: url }] };
  const keyed = (n: number) => second.ask('POST', '/v1/batches', { body, headers: { 'idempotency-key': `key-${n}` } });
  const before = await Promise.all(Array.from({ length: KEYS }, (_, n) => keyed(n)));

  assert.equal(await one.cli('partitions', 'grow', String(GROWN)), String(GROWN));
  const made = new Set<string>();
  for (const client of [first, second]) {
    const seen = new Set<number>();
    const all = async (): Promise<boolean> => {
      const { id } = await client.create(body);
      made.add(id);
      seen.add(partitionIn(id));
      return seen.size === GROWN;
    };
    await until(all, 5_000, 'batches in every partition');
  }
  await Promise.all([...made].map((id) => first.ended(id, 'completed')));
  for (const client of [first, second]) assert.equal((await client.batches('?limit=1000')).total, made.size + KEYS);

  for (const [n, reply] of before.entries()) {
    const again = await keyed(n);
    assert.equal(again.headers['idempotent-replayed'], 'true', `key-${n}`);
    assert.equal((again.json as { id: string }).id, (reply.json as { id: string }).id);
  }
  assert.equal((await first.batches('?limit=1')).total, made.size + KEYS);

  const later = await startEngine({ ...options, env: { SLUICE_PARTITIONS: '4' } });
  assert.equal(await later.cli('partitions'), String(GROWN));
  const replayed = await api(later, TOKENS.acme).ask('POST', '/v1/batches', { body, headers: { 'idempotency-key': 'key-0' } });
  assert.equal(replayed.headers['idempotent-replayed'], 'true');
  assert.deepEqual(await Promise.all([one.stop(), two.stop(), later.stop()]), [0, 0, 0]);
});
