// lua/batch/cancel.lua and release.lua, and how a batch ends.
import assert from 'node:assert/strict';
import { after, beforeEach, describe, test } from 'node:test';
import { type BatchRow, readBatch } from '../../../src/store/batches.ts';
import { keys } from '../../../src/store/keys.ts';
import { listTasks } from '../../helpers/listing.ts';
import { ACCOUNT, SETTINGS, startRig, T0 } from '../../helpers/rig.ts';

const rig = await startRig();
after(() => rig.redis.disconnect());
beforeEach(() => rig.reset());

const statuses = async (core: string): Promise<string[]> => {
  const page = await listTasks(rig.redis, ACCOUNT, core, { status: null, limit: 1000, offset: 0 });
  return (page?.rows ?? []).map(({ status }) => status);
};

describe('batch/cancel', () => {
  test('what waits is cancelled at once, what runs finishes and counts', async () => {
    const core = await rig.create({ tasks: 40 });
    const running = await rig.claim('h1', 8);
    rig.pass(5);
    const outcome = await rig.cancel(core);
    const change = { status: 'cancelled', total: 40, completed: 0, failed: 0, cancelled: 24, updated_ms: T0 + 5 };
    assert.deepEqual(outcome, { kind: 'cancelled', change });
    assert.equal(running.length, 16);
    assert.deepEqual(await rig.claim('h1', 100), []);
    await rig.settle('h1', running.slice(0, 10), 'c');
    await rig.settle('h1', running.slice(10), 'f');
    const batch = await rig.batch(core);
    assert.deepEqual([batch.status, batch.c, batch.f, batch.x], ['cancelled', 10, 6, 24]);
    const shown = await statuses(core);
    assert.deepEqual([shown.filter((s) => s === 'cancelled').length, shown.filter((s) => s === 'processing').length], [24, 0]);
  });

  test('what would be retried after the cancel is not, and what never began is cancelled too', async () => {
    const core = await rig.create({ tasks: 3 });
    const [a, b, c] = await rig.claim('h1', 3);
    assert.ok(a && b && c);
    await rig.cancel(core);
    await rig.settle('h1', [a], 'r', { delay_ms: 1000 });
    await rig.settle('h1', [b], 'b');
    await rig.settle('h1', [c], 'c');
    const batch = await rig.batch(core);
    assert.deepEqual([batch.status, batch.c, batch.f, batch.x], ['cancelled', 1, 1, 1]);
    assert.deepEqual(await statuses(core), ['failed', 'cancelled', 'completed']);
  });

  test('a task that waits for its retry is cancelled, and its entry comes to nothing', async () => {
    const core = await rig.create({ tasks: 1 });
    await rig.settle('h1', await rig.claim('h1', 1), 'r', { delay_ms: 100 });
    await rig.cancel(core);
    rig.pass(100);
    await rig.tick('h1');
    assert.deepEqual(await rig.claim('h1', 1), []);
    assert.deepEqual(await statuses(core), ['cancelled']);
    await rig.check();
  });

  test('again on a cancelled batch it answers the same', async () => {
    const core = await rig.create({ tasks: 3 });
    const first = await rig.cancel(core);
    rig.pass(100);
    assert.deepEqual(await rig.cancel(core), first);
  });

  test('a finished batch stays as it is', async () => {
    const core = await rig.create();
    await rig.settle('h1', await rig.claim('h1', 1), 'f');
    const before = await rig.dump();
    assert.deepEqual(await rig.cancel(core), { kind: 'state', status: 'failed' });
    assert.deepEqual(await rig.dump(), before);
  });

  test('another account, a tray and no batch at all are missing', async () => {
    const core = await rig.create();
    const { core: tray } = await rig.single();
    const before = await rig.dump();
    for (const outcome of [await rig.cancel(core, 'rival'), await rig.cancel(tray), await rig.cancel(rig.newCore())]) {
      assert.deepEqual(outcome, { kind: 'missing' });
    }
    assert.deepEqual(await rig.dump(), before);
  });

  test('a held batch is cancelled and ends', async () => {
    const core = await rig.create({ hold: true });
    await rig.cancel(core);
    assert.equal((await rig.batch(core)).status, 'cancelled');
    const before = await rig.dump();
    rig.pass(10);
    assert.equal((await rig.release(core))?.core, core);
    assert.equal((await rig.dump()).get('deadlines')?.items[1], before.get('deadlines')?.items[1]);
  });

  test('settle, cancel and tick at once: every task is counted once', async () => {
    for (let round = 0; round < 20; round++) {
      const core = await rig.create({ tasks: 30 });
      const tasks = await rig.claim('h1', 30);
      rig.pass(1000);
      await rig.tick('h1');
      await rig.tick('h2');
      // h1 has been silent for longer than `silence_ms` when h2 ticks; its outcomes come at the same moment.
      rig.checks = false;
      rig.pass(2900);
      await rig.tick('h2');
      rig.pass(2900);
      await rig.tick('h2');
      rig.pass(2900);
      const clients = [rig.tick('h2'), rig.settle('h1', tasks.slice(0, 16), 'c'), rig.cancel(core), rig.settle('h1', tasks.slice(16), 'c')];
      const order = round % 4;
      await Promise.all([...clients.slice(order), ...clients.slice(0, order)]);
      rig.checks = true;
      const batch = await rig.batch(core);
      assert.equal(batch.c + batch.f + batch.x, 30);
    }
  });
});

describe('batch/release', () => {
  test('a held batch does not end before its release, and ends with it', async () => {
    const core = await rig.create({ hold: true, tasks: 2 });
    await rig.settle('h1', await rig.claim('h1', 2), 'c');
    assert.equal((await rig.batch(core)).status, 'processing');
    rig.pass(7);
    assert.equal((await rig.release(core))?.core, core);
    assert.equal((await rig.batch(core)).status, 'completed');
    assert.equal(await rig.redis.zscore(keys.deadlines(0), core), String(T0 + 7 + SETTINGS.keep_ms));
  });

  test('released early it ends with its last task', async () => {
    const core = await rig.create({ hold: true, tasks: 2 });
    await rig.release(core);
    assert.equal((await rig.batch(core)).status, 'pending');
    await rig.settle('h1', await rig.claim('h1', 2), 'c');
    assert.equal((await rig.batch(core)).status, 'completed');
  });

  test('of what was cancelled, or has expired, it changes nothing but that it is not held', async () => {
    const cancelled = await rig.create({ hold: true, tasks: 2 });
    await rig.cancel(cancelled);
    const expired = await rig.create({ hold: true, tasks: 2, expiration_ms: 100 });
    rig.pass(100);
    await rig.tick('h1');
    for (const core of [cancelled, expired]) {
      const before = await rig.redis.hgetall(keys.batch(0, core));
      rig.pass(10);
      assert.equal((await rig.release(core))?.core, core);
      const { h, ...rest } = before;
      assert.equal(h, '1');
      assert.deepEqual(await rig.redis.hgetall(keys.batch(0, core)), rest);
    }
  });

  test('answers with the batch as it is then, whatever becomes of it next', async () => {
    const core = await rig.create({ hold: true, tasks: 2 });
    await rig.settle('h1', await rig.claim('h1', 2), 'c');
    const { held, ...before } = (await readBatch(rig.redis, ACCOUNT, core)) as BatchRow;
    assert.deepEqual([held, before.status], [true, 'processing']);
    rig.pass(5);
    const end = { status: 'completed', updated_ms: T0 + 5, finished_ms: T0 + 5 };
    assert.deepEqual(await rig.release(core), { ...before, held: false, ...end });
  });

  test('what was not held is left alone; another account sees nothing', async () => {
    const core = await rig.create();
    const held = await rig.create({ hold: true });
    const before = await rig.dump();
    assert.equal((await rig.release(core))?.core, core);
    assert.equal(await rig.release(held, 'rival'), null);
    assert.equal(await rig.release(rig.newCore()), null);
    assert.deepEqual(await rig.dump(), before);
  });

  test('a hold does not keep a batch from expiring', async () => {
    const core = await rig.create({ hold: true, tasks: 2, expiration_ms: 100 });
    rig.pass(100);
    await rig.tick('h1');
    const batch = await rig.batch(core);
    assert.deepEqual([batch.status, batch.f], ['expired', 2]);
  });

  test('a held batch of which every task was cancelled ends as cancelled', async () => {
    const core = await rig.create({ hold: true, tasks: 1 });
    await rig.cancelTask(core, 0);
    assert.equal((await rig.batch(core)).status, 'pending');
    await rig.release(core);
    assert.equal((await rig.batch(core)).status, 'cancelled');
  });
});
