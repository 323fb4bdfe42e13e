// What a thread knows of signing secrets, against a real Redis: how old it may be.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SECRETS_OLD_MS, SECRETS_TTL_MS } from '../../src/base/limits.ts';
import { SigningKeys } from '../../src/delivery/signing-keys.ts';
import { rotateSecret, secretKey } from '../../src/store/secrets.ts';
import { startRedis } from '../helpers/redis.ts';

const { redis } = await startRedis();

test('keys are read before they are used after a rotation that was heard of, also where a read was under way', async () => {
  const keys = new SigningKeys(redis);
  assert.equal(keys.get('one'), null);
  const before = await keys.read('one');
  assert.equal(keys.get('one'), before);
  const under_way = keys.read('one');
  const after = (await rotateSecret(redis, 'one')).map(secretKey);
  keys.rotated('one');
  await under_way;
  assert.equal(keys.get('one'), null);
  assert.deepEqual(await keys.read('one'), after);
  assert.deepEqual(keys.get('one'), after);
  keys.rotated();
  assert.equal(keys.get('one'), null);
});

test('keys of a few seconds are used while they are read again, older ones are not', async (t) => {
  let now_ms = 1_000;
  t.mock.method(performance, 'now', () => now_ms);
  const keys = new SigningKeys(redis);
  const first = await keys.read('two');
  const second = (await rotateSecret(redis, 'two')).map(secretKey);
  now_ms += SECRETS_TTL_MS + 1;
  assert.equal(keys.get('two'), first);
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(await keys.read('two'), second);
  assert.deepEqual(keys.get('two'), second);
  await rotateSecret(redis, 'two');
  now_ms += SECRETS_OLD_MS + 1;
  assert.equal(keys.get('two'), null);
});
