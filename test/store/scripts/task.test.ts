// lua/task/*.lua: single tasks in trays, and tasks that are cancelled or run again one by one.
import assert from 'node:assert/strict';
import { after, beforeEach, describe, test } from 'node:test';
import { newOperation } from '../../../src/store/batches.ts';
import { keys } from '../../../src/store/keys.ts';
import { readTask } from '../../../src/store/listing.ts';
import { ACCOUNT, SETTINGS, startRig, T0 } from '../../helpers/rig.ts';

const rig = await startRig();
after(() => rig.redis.disconnect());
beforeEach(() => rig.reset());

describe('task/create', () => {
  test('tasks of a second share a tray, each account its own', async () => {
    const a = await rig.single();
    rig.pass(999);
    const b = await rig.single(2);
    const rival = await rig.single(1, { account: 'rival' });
    rig.pass(1);
    const c = await rig.single();
    assert.deepEqual([b.core, b.first], [a.core, 1]);
    assert.notEqual(rival.core, a.core);
    assert.notEqual(c.core, a.core);
    assert.deepEqual((await rig.batch(a.core)).states, 'qqq');
  });

  test('a tray takes 1,000 tasks', async () => {
    const a = await rig.single(999);
    const b = await rig.single(1);
    const c = await rig.single(1);
    assert.deepEqual([b.core, b.first], [a.core, 999]);
    assert.deepEqual([c.core === a.core, c.first], [false, 0]);
  });

  test('a tray takes about 1 MiB', async () => {
    const large = [{ payload: JSON.stringify('x'.repeat(260_000)) }];
    const cores = new Set<string>();
    for (let i = 0; i < 6; i++) cores.add((await rig.single(large)).core);
    assert.ok(cores.size >= 1 && cores.size <= 2);
    await rig.check();
    assert.equal((await rig.claim('h1', 100)).length, 6);
  });

  test('tasks lie where they belong, wherever their sender thought that the first page begins', async () => {
    const wanted: string[] = [];
    for (const [count, place] of [
      [5, 0],
      [30, 0],
      [14, 3],
      [33, 1],
      [1, 15],
      [40, 15],
      [5, 11],
      [16, 0],
    ] as const) {
      const payloads = Array.from({ length: count }, (_, i) => JSON.stringify(`${wanted.length + i}`));
      const { first } = await rig.single(
        payloads.map((payload) => ({ payload })),
        { place },
      );
      assert.equal(first, wanted.length);
      wanted.push(...payloads);
    }
    const claimed = await rig.claim('h1', 500);
    assert.deepEqual(
      claimed.map(({ index, payload }) => [index, payload?.toString()]),
      wanted.map((payload, index) => [index, payload]),
    );
  });

  test('a tray is neither listed nor a batch', async () => {
    const { core } = await rig.single();
    assert.equal(await rig.redis.zcard(keys.accountBatches(0, ACCOUNT)), 0);
    assert.equal((await rig.batch(core)).status, 'tray');
  });

  test('the same operation again answers as before, also when a new tray was opened meanwhile', async () => {
    const operation = newOperation();
    const first = await rig.single(1, { operation });
    assert.deepEqual(await rig.single(1, { operation }), first);
    rig.pass(1500);
    const other = await rig.single();
    assert.notEqual(other.core, first.core);
    assert.deepEqual(await rig.single(1, { operation }), first);
  });

  test('100 at once, and all of them repeated: 100 tasks', async () => {
    const operations = Array.from({ length: 100 }, () => newOperation());
    rig.checks = false;
    const all = (): Promise<{ core: string; first: number }[]> => Promise.all(operations.map((operation) => rig.single(1, { operation })));
    const first = await all();
    assert.deepEqual(await all(), first);
    rig.checks = true;
    assert.equal(new Set(first.map((made) => `${made.core},${made.first}`)).size, 100);
    let claimed = 0;
    for (let turns = 0; turns < 10; turns++) claimed += (await rig.claim('h1', 500)).length;
    assert.equal(claimed, 100);
  });

  test('a finished tray is kept for a while; one that gets another task is not over', async () => {
    const { core } = await rig.single();
    await rig.settle('h1', await rig.claim('h1', 1), 'c');
    assert.equal(await rig.redis.zscore(keys.deadlines(0), core), String(T0 + 1000 + SETTINGS.tray_keep_ms));
    await rig.single();
    assert.equal(await rig.redis.zscore(keys.deadlines(0), core), null);
    const tasks = await rig.claim('h1', 1);
    assert.equal(tasks[0]?.single, true);
    await rig.settle('h1', tasks, 'f');
    rig.pass(1000 + SETTINGS.tray_keep_ms);
    const { deleted } = await rig.tick('h1');
    assert.equal(deleted, 1);
    assert.equal(await rig.redis.exists(keys.batch(0, core)), 0);
  });

  test('a tray that was deleted while its name was remembered makes room for a new one', async () => {
    const { core } = await rig.single();
    await rig.settle('h1', await rig.claim('h1', 1), 'c');
    rig.pass(1000);
    await rig.tick('h1', { tray_keep_ms: 0 });
    rig.pass(SETTINGS.tray_keep_ms);
    await rig.tick('h1');
    assert.equal(await rig.redis.exists(keys.batch(0, core)), 0);
    const next = await rig.single();
    assert.notEqual(next.core, core);
  });

  test('work with a time waits for it', async () => {
    await rig.single([{ due_ms: T0 + 50 }]);
    assert.deepEqual(await rig.claim('h1', 1), []);
    rig.pass(50);
    assert.equal((await rig.tick('h1')).promoted, 1);
    assert.equal((await rig.claim('h1', 1)).length, 1);
  });
});

describe('task/cancel', () => {
  test('a queued task is cancelled and never runs; again it is so still', async () => {
    const core = await rig.create({ tasks: 3 });
    assert.equal(await rig.cancelTask(core, 1), 'cancelled');
    const before = await rig.dump();
    assert.equal(await rig.cancelTask(core, 1), 'cancelled');
    assert.deepEqual(await rig.dump(), before);
    assert.deepEqual(
      (await rig.claim('h1', 3)).map(({ index }) => index),
      [0, 2],
    );
  });

  test('one that waits for its retry is cancelled too', async () => {
    const core = await rig.create({ tasks: 2 });
    const tasks = await rig.claim('h1', 2);
    await rig.settle('h1', tasks.slice(0, 1), 'r', { delay_ms: 10 });
    assert.equal(await rig.cancelTask(core, 0), 'cancelled');
    await rig.settle('h1', tasks.slice(1), 'c');
    assert.equal((await rig.batch(core)).status, 'completed');
    rig.pass(10);
    await rig.tick('h1');
    assert.deepEqual(await rig.claim('h1', 2), []);
  });

  test('one that runs or is over keeps its state', async () => {
    const core = await rig.create({ tasks: 3 });
    const tasks = await rig.claim('h1', 3);
    await rig.settle('h1', tasks.slice(0, 1), 'c');
    await rig.settle('h1', tasks.slice(1, 2), 'f');
    const before = await rig.dump();
    for (const index of [0, 1, 2]) assert.equal(await rig.cancelTask(core, index), 'state');
    assert.deepEqual(await rig.dump(), before);
  });

  for (const [verdicts, end] of [
    ['', 'cancelled'],
    ['c', 'completed'],
    ['f', 'failed'],
    ['cf', 'failed'],
  ] as const) {
    test(`the last tasks cancelled after ${verdicts || 'none'}: ${end}`, async () => {
      const core = await rig.create({ tasks: verdicts.length + 2 });
      await rig.cancelTask(core, verdicts.length);
      const tasks = await rig.claim('h1', 10);
      for (const [k, verdict] of [...verdicts].entries()) await rig.settle('h1', tasks.slice(k, k + 1), verdict as 'c' | 'f');
      await rig.settle('h1', tasks.slice(-1), 'b');
      assert.equal(await rig.cancelTask(core, verdicts.length + 1), 'cancelled');
      assert.equal((await rig.batch(core)).status, end);
    });
  }

  test('a task of a cancelled batch is cancelled, one of an expired batch is over', async () => {
    const cancelled = await rig.create();
    await rig.cancel(cancelled);
    const expired = await rig.create({ expiration_ms: 1 });
    rig.pass(1);
    await rig.tick('h1');
    assert.equal(await rig.cancelTask(cancelled, 0), 'cancelled');
    assert.equal(await rig.cancelTask(expired, 0), 'state');
  });

  test('a tray whose only task is cancelled is kept for a while', async () => {
    const { core } = await rig.single();
    assert.equal(await rig.cancelTask(core, 0), 'cancelled');
    assert.equal((await rig.batch(core)).x, 1);
  });

  test('another account and an index beyond the end are missing', async () => {
    const core = await rig.create();
    assert.equal(await rig.cancelTask(core, 0, 'rival'), 'missing');
    assert.equal(await rig.cancelTask(core, 1), 'missing');
    assert.equal(await rig.cancelTask(rig.newCore(), 0), 'missing');
  });
});

describe('task/retry', () => {
  test('a failed task runs again with its attempts at zero, and its result is gone', async () => {
    const open = await rig.create({ tasks: 3 });
    const second = await rig.claim('h1', 3);
    await rig.settle('h1', second.slice(0, 2), 'f', { result: '[1,0,500,5]' });
    assert.equal(await rig.retryTask(open, 1), 'queued');
    assert.equal((await readTask(rig.redis, ACCOUNT, open, 1))?.row.result, null);
    assert.equal((await readTask(rig.redis, ACCOUNT, open, 0))?.row.result, '[1,0,500,5]');
    const [again] = await rig.claim('h1', 3);
    assert.deepEqual([again?.index, again?.attempt], [1, 1]);
    assert.ok(again);
    await rig.settle('h1', [again], 'c', { result: '[1,0,200,5]' });
    assert.equal((await readTask(rig.redis, ACCOUNT, open, 1))?.row.result, '[1,0,200,5]');
    await rig.settle('h1', second.slice(2), 'c');
    const batch = await rig.batch(open);
    assert.deepEqual([batch.status, batch.c, batch.f], ['failed', 2, 1]);
  });

  test('a failed single task runs again, and its tray is not over', async () => {
    const { core } = await rig.single();
    await rig.settle('h1', await rig.claim('h1', 1), 'f');
    rig.pass(20_000);
    assert.equal(await rig.retryTask(core, 0), 'queued');
    assert.equal((await rig.batch(core)).f, 0);
    rig.pass(SETTINGS.tray_keep_ms);
    await rig.tick('h1');
    await rig.settle('h1', await rig.claim('h1', 1), 'c');
    assert.equal((await rig.batch(core)).c, 1);
  });

  test('once for one operation, however it has ended since', async () => {
    const { core } = await rig.single();
    await rig.settle('h1', await rig.claim('h1', 1), 'f');
    for (let tries = 0; tries < 2; tries++) {
      assert.equal(await rig.retryTask(core, 0, ACCOUNT, 'o1', { operation: 'op1' }), 'queued');
      const claimed = await rig.claim('h1', 1);
      assert.equal(claimed.length, 1 - tries);
      await rig.settle('h1', claimed, 'f');
    }
    assert.equal(await rig.retryTask(core, 0, ACCOUNT, 'o1', { operation: 'op2' }), 'queued');
    assert.equal((await rig.claim('h1', 1)).length, 1);
  });

  test('while the range that it was started with is in flight', async () => {
    const core = await rig.create({ tasks: 4 });
    const tasks = await rig.claim('h1', 4);
    await rig.settle('h1', tasks.slice(1, 2), 'f');
    await rig.retryTask(core, 1);
    const again = await rig.claim('h1', 4);
    await rig.settle('h1', tasks.slice(1, 2), 'c');
    assert.equal((await rig.batch(core)).states, 'pPpp');
    await rig.settle('h1', [...tasks.slice(0, 1), ...again, ...tasks.slice(2)], 'c');
    assert.equal((await rig.batch(core)).status, 'completed');
  });

  test('what is not failed keeps its state; another account sees nothing', async () => {
    const core = await rig.create({ tasks: 4 });
    const tasks = await rig.claim('h1', 4);
    await rig.settle('h1', tasks.slice(0, 1), 'c');
    await rig.settle('h1', tasks.slice(1, 2), 'r', { delay_ms: 5 });
    await rig.settle('h1', tasks.slice(2, 3), 'f');
    const before = await rig.dump();
    for (const index of [0, 1, 3]) assert.equal(await rig.retryTask(core, index), 'state');
    assert.equal(await rig.retryTask(core, 2, 'rival'), 'missing');
    assert.equal(await rig.retryTask(core, 4), 'missing');
    assert.deepEqual(await rig.dump(), before);
  });
});
