// lua/partition/settle.lua: every outcome counts once, for what is still in flight under its name.
import assert from 'node:assert/strict';
import { after, beforeEach, describe, test } from 'node:test';
import { keys } from '../../../src/store/keys.ts';
import { readLimited, readTask } from '../../../src/store/listing.ts';
import type { Claimed, Verdict } from '../../../src/store/partition.ts';
import { readTasks } from '../../../src/store/task-rows.ts';
import { listTasks } from '../../helpers/listing.ts';
import { ACCOUNT, DUE_AHEAD_MS, startRig, T0 } from '../../helpers/rig.ts';

const rig = await startRig();
after(() => rig.redis.disconnect());
beforeEach(() => rig.reset());

const settlements = (tasks: readonly Claimed[], verdicts: string) =>
  tasks.map(({ flight, index }, k) => {
    const verdict = (verdicts[k % verdicts.length] ?? 'c') as Verdict;
    return { flight, index, verdict, delay_ms: 0, result: verdict === 'b' ? '' : `["${index}"]` };
  });

describe('partition/settle', () => {
  test('counters, bytes and results follow the outcomes, in any order and mixture', async () => {
    const core = await rig.create({ tasks: 40 });
    const tasks = [...(await rig.claim('h1', 20)), ...(await rig.claim('h1', 20))];
    assert.equal(tasks.length, 40);
    await rig.settleAll('h1', settlements(tasks, 'ccfrb').reverse());
    const batch = await rig.batch(core);
    assert.deepEqual([batch.c, batch.f, batch.r], [16, 8, 0]);
    const page = await listTasks(rig.redis, ACCOUNT, core, { status: null, limit: 40, offset: 0 });
    for (const row of page?.rows ?? []) assert.equal(row.result, row.index % 5 === 4 ? null : `["${row.index}"]`);
  });

  test('a first outcome that comes while its task is being listed is not shown beside the state before it', async () => {
    const core = await rig.create({ tasks: 1 });
    const tasks = await rig.claim('h1', 1);
    const read = await readLimited(rig.redis, ACCOUNT, core, { limit: 0, states: true });
    assert.ok(read.kind === 'read');
    await rig.settle('h1', tasks, 'r');
    const rows = await readTasks(rig.redis, read.batch, read.states, [0]);
    assert.deepEqual([rows[0]?.status, rows[0]?.result], ['processing', null]);
  });

  test('a repeated call counts nothing twice', async () => {
    const core = await rig.create({ tasks: 40 });
    const tasks = await rig.claim('h1', 40);
    const part = settlements(tasks.slice(5, 25), 'cfc');
    await rig.settleAll('h1', part);
    const before = await rig.dump();
    assert.deepEqual((await rig.settleAll('h1', part)).left, []);
    assert.deepEqual(await rig.dump(), before);
    await rig.settleAll('h1', settlements(tasks, 'c'));
    await rig.settleAll('h1', settlements([...tasks.slice(0, 5), ...tasks.slice(25)], 'c'));
    const batch = await rig.batch(core);
    assert.deepEqual([batch.status, batch.c + batch.f], ['failed', 40]);
  });

  test('of a call that repeats some outcomes, the others are left to be sent again', async () => {
    const core = await rig.create({ tasks: 4 });
    const tasks = await rig.claim('h1', 4);
    await rig.settle('h1', tasks.slice(1, 2), 'c');
    const { left } = await rig.settle('h1', tasks, 'f');
    assert.deepEqual(
      left.map(({ index }) => index),
      [0, 2, 3],
    );
    assert.deepEqual((await rig.settleAll('h1', left)).left, []);
    const batch = await rig.batch(core);
    assert.deepEqual([batch.c, batch.f], [1, 3]);
  });

  test('an outcome repeated after its task was started again is passed over, not sent for ever', async () => {
    await rig.create({ tasks: 4 });
    const tasks = await rig.claim('h1', 4);
    const back = settlements(tasks.slice(1, 2), 'b');
    await rig.settleAll('h1', back);
    assert.equal((await rig.claim('h1', 4)).length, 1);
    assert.deepEqual((await rig.settleAll('h1', back)).left, []);
    assert.deepEqual(
      (await rig.settleAll('h1', settlements(tasks, 'c'))).left.map(({ index }) => index),
      [0, 2, 3],
    );
  });

  test('nobody settles for another holder', async () => {
    const core = await rig.create({ tasks: 4 });
    const tasks = await rig.claim('h1', 4);
    await rig.settle('h2', tasks, 'c');
    assert.equal((await rig.batch(core)).r, 4);
  });

  test('an outcome that comes after its task was taken away is passed over', async () => {
    const core = await rig.create({ tasks: 2 });
    const tasks = await rig.claim('h1', 2);
    for (let s = 0; s < 36; s += 2) {
      rig.pass(2_000);
      await rig.tick('h1');
    }
    const again = await rig.claim('h2', 2);
    assert.deepEqual(
      again.map(({ attempt, recoveries }) => [attempt, recoveries]),
      [
        [2, 1],
        [2, 1],
      ],
    );
    await rig.settle('h1', tasks, 'f');
    assert.equal((await rig.batch(core)).r, 2);
    await rig.settle('h2', again, 'c');
    assert.equal((await rig.batch(core)).status, 'completed');
  });

  test('a retry waits its delay in the class of retries, with its attempt counted', async () => {
    const core = await rig.create({ tasks: 1 });
    const { first_due_ms } = await rig.settle('h1', await rig.claim('h1', 1), 'r', { delay_ms: 250 });
    assert.equal(first_due_ms, T0 + 250 - DUE_AHEAD_MS);
    assert.deepEqual(await rig.claim('h1', 1), []);
    rig.pass(249 - DUE_AHEAD_MS);
    assert.equal((await rig.tick('h1')).promoted, 0);
    rig.pass(1);
    assert.equal((await rig.tick('h1')).promoted, 1);
    const [again] = await rig.claim('h1', 1);
    assert.deepEqual([again?.attempt, again?.recoveries, again?.due_ms], [2, 0, T0 + 250]);
    assert.ok(again);
    await rig.settle('h1', [again], 'c');
    assert.equal((await rig.batch(core)).status, 'completed');
  });

  test('what is handed back keeps its attempt number, however often', async () => {
    await rig.create({ tasks: 3 });
    for (let k = 0; k < 5; k++) {
      const tasks = await rig.claim('h1', 3);
      assert.deepEqual(
        tasks.map(({ attempt }) => attempt),
        [1, 1, 1],
      );
      await rig.settle('h1', tasks, 'b');
    }
  });

  test('what is handed back of an expired batch is shown as expired, also after an earlier attempt', async () => {
    const core = await rig.create({ tasks: 2, expiration_ms: 100 });
    const tasks = await rig.claim('h1', 2);
    await rig.settle('h1', tasks.slice(0, 1), 'r', { result: '[1,0,500,5]' });
    const again = await rig.claim('h1', 1);
    rig.pass(100);
    await rig.tick('h1');
    await rig.settle('h1', [...tasks.slice(1), ...again], 'b');
    const batch = await rig.batch(core);
    assert.deepEqual([batch.status, batch.f], ['expired', 2]);
    for (const index of [0, 1]) assert.equal((await readTask(rig.redis, ACCOUNT, core, index))?.row.expired, true);
  });

  test('a result of each attempt takes the place of the one before, and leaves its neighbours', async () => {
    const core = await rig.create({ tasks: 3 });
    await rig.settle('h1', await rig.claim('h1', 3), 'r', { result: '[1,0,500,5]' });
    const second = await rig.claim('h1', 3);
    for (const task of second) await rig.settle('h1', [task], task.index === 1 ? 'f' : 'c', { result: `[2,${task.index}]` });
    for (const index of [0, 1, 2]) assert.equal((await readTask(rig.redis, ACCOUNT, core, index))?.row.result, `[2,${index}]`);
  });

  test('512 outcomes of many batches in one call', async () => {
    const cores = [];
    for (let k = 0; k < 20; k++) cores.push(await rig.create({ tasks: 30 }));
    const tasks: Claimed[] = [];
    for (let turns = 0; turns < 50 && tasks.length < 600; turns++) tasks.push(...(await rig.claim('h1', 100)));
    assert.equal(tasks.length, 600);
    await rig.settleAll('h1', settlements(tasks.slice(0, 512), 'cfrb'));
    await rig.settleAll('h1', settlements(tasks.slice(512), 'cfrb'));
    const totals = await Promise.all(cores.map((core) => rig.batch(core)));
    assert.equal(
      totals.reduce((sum, { c }) => sum + c, 0),
      150,
    );
    assert.equal(await rig.active('h1').then((names) => names.length), 0);
  });

  test('of a batch that is gone nothing is counted, and its names go with their leases', async () => {
    const core = await rig.create({ tasks: 2 });
    const tasks = await rig.claim('h1', 2);
    rig.checks = false;
    await rig.redis.del(keys.batch(0, core), keys.states(0, core));
    assert.deepEqual((await rig.settle('h1', tasks, 'c')).left, []);
    assert.equal((await rig.active('h1')).length, 1);
    for (let k = 0; k < 20; k++) {
      rig.pass(2000);
      await rig.tick('h1');
    }
    rig.checks = true;
    assert.deepEqual(await rig.active('h1'), []);
  });

  test('an empty call is none', async () => {
    assert.deepEqual((await rig.settleAll('h1', [])).left, []);
  });
});
