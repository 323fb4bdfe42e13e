// lua/batch/create.lua: all tasks of a batch exist or none does.

import assert from 'node:assert/strict';
import { after, beforeEach, describe, test } from 'node:test';
import { createBatch } from '../../../src/store/batches.ts';
import { encodeTasks } from '../../../src/store/encoded.ts';
import { StageLost } from '../../../src/store/errors.ts';
import { NO_RECORD } from '../../../src/store/idempotency.ts';
import { keys } from '../../../src/store/keys.ts';
import { batchCreate } from '../../../src/store/scripts.gen.ts';
import { listTasks } from '../../helpers/listing.ts';
import { ACCOUNT, startRig, T0, tasksOf } from '../../helpers/rig.ts';

const rig = await startRig();
after(() => rig.redis.disconnect());
beforeEach(() => rig.reset());

describe('batch/create', () => {
  test('a new batch is pending, listed, queued and will expire', async () => {
    const core = await rig.create({ tasks: 3, expiration_ms: 5000 });
    const batch = await rig.batch(core);
    assert.deepEqual([batch.status, batch.n, batch.states], ['pending', 3, 'qqq']);
    const dump = await rig.dump();
    assert.deepEqual(dump.get(`f:f:${ACCOUNT}:o1`)?.items, [`${core},0,2,0,0,30,${T0}`]);
    assert.deepEqual(dump.get('deadlines')?.items, [core, String(T0 + 5000)]);
  });

  test('an expiry counts from the latest execute_after, where that is in the future', async () => {
    const late = await rig.create({ expiration_ms: 1000, expires_from_ms: T0 + 50_000 });
    const past = await rig.create({ expiration_ms: 1000, expires_from_ms: T0 - 50_000 });
    assert.equal(await rig.redis.hget(keys.batch(0, late), 'e'), String(T0 + 51_000));
    assert.equal(await rig.redis.hget(keys.batch(0, past), 'e'), String(T0 + 1000));
  });

  test('the same call again, staging and all, changes nothing, and its segments stay', async () => {
    const core = rig.newCore();
    await rig.create({ core, tasks: 1200, task_keys: ['a', 'b'] });
    const before = await rig.dump();
    rig.pass(500);
    await rig.create({ core, tasks: 1200, task_keys: ['a', 'b'] });
    const left = [...(await rig.dump())].filter(([name]) => !name.includes(':+'));
    assert.deepEqual(new Map(left), before);
  });

  test('a repeated call that was cut off while it staged takes nothing from the batch', async () => {
    const core = await rig.create({ tasks: 5 });
    const pipeline = rig.redis.pipeline();
    const batch = { partition: 0, core, account_id: ACCOUNT, doc: Buffer.from('{}'), tasks: encodeTasks(tasksOf(5)), task_keys: [] };
    const times = { expiration_ms: 1, expires_from_ms: 0, movable: false, hold: false };
    // Everything of the second call but its last command.
    const cut = Object.assign(Object.create(rig.redis) as typeof rig.redis, {
      pipeline: () => Object.assign(pipeline, { evalsha: () => pipeline }),
    });
    await assert.rejects(createBatch(cut, { ...batch, ...times }));
    await rig.check();
  });

  test('where a segment has expired nothing is made', async () => {
    const before = await rig.dump();
    const args = {
      core: rig.newCore(),
      account: ACCOUNT,
      doc: Buffer.from('{}'),
      total: 5,
      last_bytes: 1,
      expiration_ms: 1,
      expires_from_ms: 0,
    };
    const parts = [1, 0, 1, 0, 4, 'o1', 30, 0, 0];
    const [made] = await batchCreate.call(
      rig.redis,
      { meta: keys.partition(0) },
      { ...args, movable: 0, hold: 0, labels: '', notify: '', ...NO_RECORD, parts },
    );
    assert.equal(made, 0);
    assert.deepEqual(await rig.dump(), before);
    assert.ok(new StageLost() instanceof Error);
  });

  test('2,500 tasks lie in three segments and come out in their order', async () => {
    const core = await rig.create({ tasks: 2500 });
    await rig.check();
    const page = await listTasks(rig.redis, ACCOUNT, core, { status: null, limit: 2500, offset: 0 });
    assert.deepEqual(page?.batch.bases, [0, 1000, 2000]);
    assert.deepEqual(
      page?.rows.map(({ payload }) => payload?.toString()),
      tasksOf(2500).map(({ payload }) => payload?.toString()),
    );
  });

  test('a segment takes no more than about 1 MiB', async () => {
    const core = await rig.create({ tasks: Array.from({ length: 64 }, () => ({ payload: JSON.stringify('x'.repeat(60_000)) })) });
    const page = await listTasks(rig.redis, ACCOUNT, core, { status: null, limit: 64, offset: 0 });
    assert.deepEqual([page?.batch.bases.length, page?.rows.length], [2, 64]);
    await rig.check();
  });

  test('work with a time waits for it, and the rest does not', async () => {
    const core = await rig.create({ tasks: [{}, { due_ms: T0 + 1000 }, { due_ms: T0 + 1000 }, { due_ms: T0 - 1 }] });
    const dump = await rig.dump();
    assert.deepEqual(dump.get('delayed')?.items, [`f:${ACCOUNT}:o1|${core},1,2,0,0,30,${T0 + 1000}`, String(T0 + 1000)]);
    assert.equal(dump.get(`f:f:${ACCOUNT}:o1`)?.items.length, 2);
    assert.equal((await rig.claim('h1', 16)).length, 2);
  });

  test('tasks of more origins than a commit queues are mapped in their segments, delayed ones too', async () => {
    const tasks = Array.from({ length: 2300 }, (_, i) => ({ origin: `o${i % 70}`, due_ms: i % 97 === 0 ? T0 + 1000 : 0 }));
    const core = await rig.create({ tasks });
    const dump = await rig.dump();
    assert.deepEqual(dump.get(`f:f:${ACCOUNT}:*`)?.items, [`${core},0,2299,0,0,0,${T0}`]);
    const seen = new Set<number>();
    for (let turns = 0; seen.size < 2300 && turns < 300; turns++) {
      if (turns === 150) rig.pass(1000);
      await rig.tick('h1');
      const tasks_claimed = await rig.claim('h1', 128);
      for (const { index } of tasks_claimed) {
        assert.ok(!seen.has(index), `task ${index} comes once`);
        assert.ok(index % 97 !== 0 || rig.now_ms >= T0 + 1000, `task ${index} comes in time`);
        seen.add(index);
      }
      await rig.settle('h1', tasks_claimed, 'c');
    }
    const batch = await rig.batch(core);
    assert.deepEqual([batch.status, batch.c], ['completed', 2300]);
  });

  test('idempotency keys of its tasks are known afterwards', async () => {
    const core = await rig.create({ tasks: 2, task_keys: ['k1', 'k2'] });
    assert.deepEqual((await rig.redis.smembers(keys.taskKeys(0, core))).sort(), ['k1', 'k2']);
  });
});
