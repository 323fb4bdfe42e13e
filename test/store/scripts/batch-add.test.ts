// lua/batch/add.lua: tasks behind those of a batch, all of them or none, once.

import assert from 'node:assert/strict';
import { after, beforeEach, describe, test } from 'node:test';
import { knownTaskKeys, newOperation } from '../../../src/store/batches.ts';
import { NO_RECORD } from '../../../src/store/idempotency.ts';
import { keys } from '../../../src/store/keys.ts';
import { batchAdd } from '../../../src/store/scripts.gen.ts';
import { listTasks } from '../../helpers/listing.ts';
import { until } from '../../helpers/redis.ts';
import { ACCOUNT, DUE_AHEAD_MS, startRig, T0 } from '../../helpers/rig.ts';

const rig = await startRig();
after(() => rig.redis.disconnect());
beforeEach(() => rig.reset());

const payloads = async (core: string): Promise<string[]> => {
  const page = await listTasks(rig.redis, ACCOUNT, core, { status: null, limit: 10_000, offset: 0 });
  return (page?.rows ?? []).map(({ payload }) => payload?.toString() ?? '');
};

const expected = (...groups: readonly [label: string, count: number][]): string[] =>
  groups.flatMap(([label, count]) => Array.from({ length: count }, (_, i) => JSON.stringify(`${label} ${i}`)));

describe('batch/add', () => {
  test('tasks follow those that were there, and totals with them', async () => {
    const core = await rig.create({ tasks: 3 });
    rig.pass(10);
    const outcome = await rig.add(core, 2);
    const change = { status: 'pending', total: 5, completed: 0, failed: 0, cancelled: 0, updated_ms: T0 + 10 };
    assert.deepEqual(outcome, { kind: 'added', first: 3, change });
    assert.deepEqual(await payloads(core), expected(['task', 3], ['added', 2]));
  });

  for (const [had, added] of [
    [15, 1],
    [15, 2],
    [16, 1],
    [17, 30],
    [999, 1],
    [999, 2],
    [1000, 1],
    [990, 200],
    [1990, 40],
  ] as const) {
    test(`${added} added to ${had}: pages and segments meet without a gap`, async () => {
      const core = await rig.create({ tasks: had });
      await rig.add(core, added);
      await rig.add(core, 1);
      const texts = expected(['task', had], ['added', added], ['added', 1]);
      assert.deepEqual(await payloads(core), texts);
      const seen = new Set<number>();
      for (let turns = 0; turns < 100 && seen.size < had + added + 1; turns++) {
        for (const { index, payload } of await rig.claim('h1', 500)) {
          seen.add(index);
          assert.equal(payload?.toString(), texts[index]);
        }
      }
      assert.equal(seen.size, had + added + 1);
    });
  }

  test('many come as segments of their own, whatever room the last one has', async () => {
    const core = await rig.create({ tasks: 10 });
    await rig.add(core, 1500);
    await rig.add(core, 3);
    const page = await listTasks(rig.redis, ACCOUNT, core, { status: null, limit: 2000, offset: 0 });
    assert.deepEqual(page?.batch.bases, [0, 10, 1010]);
    assert.deepEqual(await payloads(core), expected(['task', 10], ['added', 1500], ['added', 3]));
  });

  test('many of many origins are mapped, and each runs once', async () => {
    const core = await rig.create({ tasks: 10 });
    await rig.add(
      core,
      Array.from({ length: 1300 }, (_, i) => ({ origin: `o${i % 80}` })),
    );
    await rig.add(core, 5);
    let ran = 0;
    for (let turns = 0; turns < 100 && ran < 1315; turns++) {
      const tasks = await rig.claim('h1', 256);
      ran += tasks.length;
      await rig.settle('h1', tasks, 'c');
    }
    const batch = await rig.batch(core);
    assert.deepEqual([batch.status, batch.c], ['completed', 1315]);
  });

  test('large tasks open a segment where the last one is full', async () => {
    const core = await rig.create({ tasks: 1 });
    for (let i = 0; i < 6; i++) await rig.add(core, [{ payload: JSON.stringify('x'.repeat(250_000)) }]);
    const page = await listTasks(rig.redis, ACCOUNT, core, { status: null, limit: 10, offset: 0 });
    assert.deepEqual(page?.batch.bases, [0, 5]);
    assert.equal(page?.rows[6]?.payload?.length, 250_002);
  });

  test('the same operation again answers as before and adds nothing', async () => {
    const core = await rig.create({ tasks: 1 });
    for (const count of [2, 300]) {
      const operation = newOperation();
      const first = await rig.add(core, count, { operation });
      const again = await rig.add(core, count, { operation });
      assert.deepEqual(again, first);
    }
    assert.equal((await rig.batch(core)).n, 303);
  });

  test('20 adds at once all count, and all of them repeated add nothing', async () => {
    const core = await rig.create({ tasks: 1 });
    const operations = Array.from({ length: 20 }, () => newOperation());
    rig.checks = false;
    const adds = (): Promise<unknown[]> => Promise.all(operations.map((operation, k) => rig.add(core, 10 + k, { operation })));
    const first = await adds();
    rig.checks = true;
    const total = 1 + operations.reduce((sum, _, k) => sum + 10 + k, 0);
    assert.equal((await rig.batch(core)).n, total);
    rig.pass(2500);
    rig.checks = false;
    const again = await adds();
    rig.checks = true;
    assert.equal((await rig.batch(core)).n, total);
    const firsts = (outcomes: unknown[]): unknown[] => outcomes.map((outcome) => (outcome as { first: number }).first);
    assert.deepEqual(firsts(again), firsts(first));
  });

  test('work with a time waits for it', async () => {
    const core = await rig.create({ tasks: 1 });
    await rig.add(core, [{ due_ms: T0 + 100 }, {}]);
    assert.equal((await rig.claim('h1', 16)).length, 2);
    rig.pass(100);
    await rig.tick('h1');
    assert.equal((await rig.claim('h1', 16)).length, 1);
  });

  test('a movable expiry moves with the latest execute_after, never back; another stays', async () => {
    const movable = await rig.create({ movable: true, expiration_ms: 1000 });
    const fixed = await rig.create({ expiration_ms: 1000 });
    for (const core of [movable, fixed]) await rig.add(core, 1, { expires_from_ms: T0 + 9000, expiration_ms: 1000 });
    for (const core of [movable, fixed]) await rig.add(core, 1, { expires_from_ms: T0 + 100, expiration_ms: 1000 });
    assert.equal(await rig.redis.hget(keys.batch(0, movable), 'e'), String(T0 + 10_000));
    assert.equal(await rig.redis.hget(keys.batch(0, fixed), 'e'), String(T0 + 1000));
  });

  test('a key that the batch has already refuses the whole call', async () => {
    const core = await rig.create({ task_keys: ['k1'] });
    const before = await rig.dump();
    assert.deepEqual(await rig.add(core, 2, { task_keys: ['k2', 'k1'] }), { kind: 'repeat' });
    assert.deepEqual(await rig.dump(), before);
    assert.equal((await rig.add(core, 2, { task_keys: ['k2', 'k3'] })).kind, 'added');
    assert.deepEqual(await rig.add(core, 1, { task_keys: ['k3'] }), { kind: 'repeat' });
  });

  test('2,000 keys are looked up in slices', async () => {
    const names = Array.from({ length: 2000 }, (_, i) => `k${i}`);
    const core = await rig.create({ task_keys: names });
    assert.deepEqual(await rig.add(core, 1, { task_keys: [...names.slice(0, -1).map((name) => `${name}x`), 'k1999'] }), { kind: 'repeat' });
  });

  test('another account, a tray and no batch at all are missing', async () => {
    const core = await rig.create();
    const { core: tray } = await rig.single();
    const before = await rig.dump();
    assert.deepEqual(await rig.add(core, 1, { account: 'rival' }), { kind: 'missing' });
    assert.deepEqual(await rig.add(tray, 1), { kind: 'missing' });
    assert.deepEqual(await rig.add(rig.newCore(), 1), { kind: 'missing' });
    assert.deepEqual(await rig.dump(), before);
  });

  test('a batch that is over takes no more', async () => {
    const completed = await rig.create();
    await rig.settle('h1', await rig.claim('h1', 1), 'c');
    const failed = await rig.create();
    await rig.settle('h1', await rig.claim('h1', 1), 'f');
    const cancelled = await rig.create();
    await rig.cancel(cancelled);
    const expired = await rig.create({ expiration_ms: 1 });
    rig.pass(1);
    await rig.tick('h1');
    for (const [core, status] of Object.entries({
      [completed]: 'completed',
      [failed]: 'failed',
      [cancelled]: 'cancelled',
      [expired]: 'expired',
    })) {
      assert.deepEqual(await rig.add(core, 1), { kind: 'state', status });
    }
  });

  test('a held batch of which all is over takes more and goes on', async () => {
    const core = await rig.create({ hold: true });
    await rig.settle('h1', await rig.claim('h1', 1), 'c');
    assert.equal((await rig.batch(core)).status, 'processing');
    await rig.add(core, 1);
    await rig.settle('h1', await rig.claim('h1', 1), 'c');
    await rig.release(core);
    assert.equal((await rig.batch(core)).status, 'completed');
  });

  test('segments that expired before their commit: nothing is added', async () => {
    const core = await rig.create();
    const before = await rig.dump();
    const parts = [1, `b:${core}:+op:0`, 300, 5000, 0, 1, 0, 299, 'o1', 30, 0, 0];
    const args = { core, account: ACCOUNT, op: 'op', total: 300, expires_from_ms: 0, expiration_ms: 0, ...NO_RECORD, parts };
    const [outcome] = await batchAdd.call(rig.redis, { meta: keys.partition(0) }, args);
    assert.equal(outcome, 'lost');
    assert.deepEqual(await rig.dump(), before);
  });

  test('the bell says whether work is ready, or when some will be where that is sooner than any before', async () => {
    const core = await rig.create();
    const heard: string[] = [];
    const ear = rig.redis.duplicate();
    const three = new Promise<void>((resolve) => ear.on('smessage', (_, message: string) => heard.push(message) === 3 && resolve()));
    await ear.ssubscribe(keys.bell(0));
    await rig.add(core, 1);
    await rig.add(core, [{ due_ms: T0 + 900 }, { due_ms: T0 + 700 }]);
    await rig.add(core, [{ due_ms: T0 + 700 }, { due_ms: T0 + 800 }]);
    await rig.add(core, [{ due_ms: T0 + 600 }]);
    await three;
    ear.disconnect();
    assert.deepEqual(heard, ['0', String(T0 + 700 - DUE_AHEAD_MS), String(T0 + 600 - DUE_AHEAD_MS)]);
  });

  test('of a batch that expires before anybody looks by himself the bell says when, beside what is ready', async (t) => {
    const heard: string[] = [];
    const ear = rig.redis.duplicate();
    t.after(() => ear.disconnect());
    ear.on('smessage', (_, message: string) => heard.push(message));
    await ear.ssubscribe(keys.bell(0));
    await rig.create({ expiration_ms: 3_600_000 });
    await rig.create({ expiration_ms: 1_500 });
    await until(() => heard.length === 3, 5_000, 'the bells');
    assert.deepEqual(heard, ['0', '0', String(T0 + 1_500)]);
  });

  test('where some is ready and some will be the bell says both', async () => {
    const core = await rig.create();
    const heard: string[] = [];
    const ear = rig.redis.duplicate();
    const three = new Promise<void>((resolve) => ear.on('smessage', (_, message: string) => heard.push(message) === 3 && resolve()));
    await ear.ssubscribe(keys.bell(0));
    await rig.add(core, [{}, { due_ms: T0 + 700 }]);
    await rig.add(core, [{}, { due_ms: T0 + 800 }]);
    await three;
    ear.disconnect();
    assert.deepEqual(heard, ['0', String(T0 + 700 - DUE_AHEAD_MS), '0']);
  });

  test('which of very many keys a batch has is asked in calls that Redis and Lua can take', async () => {
    const core = await rig.create({ task_keys: ['k1', 'k2'] });
    const names = Array.from({ length: 200_000 }, (_, i) => `other${i}`);
    names[9_999] = 'k1';
    names[199_999] = 'k2';
    assert.deepEqual([...(await knownTaskKeys(rig.redis, core, names))], ['k1', 'k2']);
    assert.deepEqual([...(await knownTaskKeys(rig.redis, core, []))], []);
  });
});
