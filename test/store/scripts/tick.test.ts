// lua/partition/tick.lua: what time brings.
import assert from 'node:assert/strict';
import { after, beforeEach, describe, test } from 'node:test';
import { keys } from '../../../src/store/keys.ts';
import { readTask } from '../../../src/store/listing.ts';
import { listTasks } from '../../helpers/listing.ts';
import { until } from '../../helpers/redis.ts';
import { ACCOUNT, DUE_AHEAD_MS, places, SETTINGS, startRig, T0 } from '../../helpers/rig.ts';

/** Who was silent over a gap, and may live, has so long to call. */
const AFTER_GAP_MS = 5_600;

const rig = await startRig();
after(() => rig.redis.disconnect());
beforeEach(() => rig.reset());

describe('expiry', () => {
  test('what waits has failed, what runs finishes and counts', async () => {
    const core = await rig.create({ tasks: 20, expiration_ms: 1000 });
    const running = await rig.claim('h1', 4);
    rig.pass(1000);
    const { expired } = await rig.tick('h1');
    assert.equal(expired, 1);
    const batch = await rig.batch(core);
    assert.deepEqual([batch.status, batch.f, batch.r], ['expired', 4, 16]);
    await rig.settle('h1', running.slice(0, 8), 'c');
    await rig.settle('h1', running.slice(8), 'r');
    const after_all = await rig.batch(core);
    assert.deepEqual([after_all.status, after_all.c, after_all.f], ['expired', 8, 12]);
    const page = await listTasks(rig.redis, ACCOUNT, core, { status: 'failed', limit: 100, offset: 0 });
    assert.equal(page?.total, 12);
    assert.equal(page?.rows.filter(({ expired: e }) => e).length, 4);
  });

  test('at its very millisecond, not before', async () => {
    const core = await rig.create({ expiration_ms: 1000 });
    rig.pass(999);
    assert.equal((await rig.tick('h1')).expired, 0);
    rig.pass(1);
    assert.equal((await rig.tick('h1')).expired, 1);
    assert.equal((await rig.batch(core)).status, 'expired');
  });

  test('of 120 batches 50 a call', async () => {
    for (let k = 0; k < 120; k++) await rig.create({ expiration_ms: 10 });
    rig.pass(10);
    const counts = [await rig.tick('h1'), await rig.tick('h1'), await rig.tick('h1')];
    assert.deepEqual(
      counts.map(({ expired, more }) => [expired, more]),
      [
        [50, true],
        [50, true],
        [20, false],
      ],
    );
  });

  test('a task that is lost and whose batch expires in the same call fails once', async () => {
    const core = await rig.create({ tasks: 2, expiration_ms: 20_000 });
    await rig.claim('h1', 2);
    await rig.passWith('h2', 20_000);
    const batch = await rig.batch(core);
    assert.deepEqual([batch.status, batch.f, batch.r], ['expired', 2, 0]);
  });
});

describe('a batch whose last task is lost for good when its expiry has come', () => {
  test('has failed, and is kept as every finished batch', async () => {
    const core = await rig.create({ tasks: 1, expiration_ms: 9000 });
    await rig.claim('h1', 1);
    await rig.passWith('h2', 8000);
    rig.pass(1000);
    const { deleted } = await rig.tick('h2', { recoveries_max: 1 });
    assert.equal(deleted, 0);
    assert.equal((await rig.batch(core)).status, 'failed');
    assert.equal(await rig.redis.zscore(keys.deadlines(0), core), String(rig.now_ms + SETTINGS.keep_ms));
  });
});

describe('silent holders', () => {
  test('one silent for longer than silence_ms loses its work, which runs again with its attempt counted', async () => {
    const core = await rig.create({ tasks: 20 });
    await rig.claim('h1', 20);
    await rig.tick('h1');
    await rig.passWith('h2', 8000);
    assert.equal((await rig.batch(core)).r, 20);
    rig.pass(1);
    const { recovered, ready } = await rig.tick('h2');
    assert.deepEqual([recovered, ready], [20, true]);
    assert.deepEqual(await rig.active('h1'), []);
    const again = await rig.claim('h2', 20);
    assert.deepEqual([...new Set(again.map(({ attempt, recoveries }) => `${attempt} ${recoveries}`))], ['2 1']);
    assert.equal((await rig.dump()).get('holders')?.items.includes('h1'), false);
    assert.equal((await rig.dump()).get('claims')?.items.includes('h1'), false);
  });

  test('one that calls keeps its work', async () => {
    const core = await rig.create({ tasks: 2 });
    await rig.claim('h1', 2);
    for (let k = 0; k < 6; k++) {
      await rig.passWith('h2', 2000);
      await rig.tick('h1');
    }
    assert.equal((await rig.batch(core)).r, 2);
  });

  test('where nobody called for a while everybody has time to call again', async () => {
    const core = await rig.create({ tasks: 2 });
    await rig.claim('h1', 2);
    await rig.tick('h1');
    rig.pass(25_000);
    await rig.tick('h2');
    assert.equal((await rig.batch(core)).r, 2);
    await rig.passWith('h2', AFTER_GAP_MS);
    assert.equal((await rig.batch(core)).r, 2);
    rig.pass(1);
    await rig.tick('h2');
    assert.equal((await rig.batch(core)).r, 0);
  });

  test('a gap gives nobody more time than he had, where that was less, and takes none', async () => {
    for (let k = 0; k < 3; k++) await rig.create();
    await rig.claim('h1', 1);
    await rig.passWith('h9', 6000);
    await rig.claim('h2', 1);
    const [silent_ms, gap_ms] = [6000, SETTINGS.gap_ms + 1];
    rig.pass(gap_ms - 100);
    await rig.claim('h3', 1);
    rig.pass(100);
    await rig.tick('h9');
    const marks = await rig.redis.hgetall(keys.holders(0));
    assert.deepEqual(
      ['h1', 'h2', 'h3'].map((name) => rig.now_ms - Number(marks[name])),
      [silent_ms, SETTINGS.silence_ms - AFTER_GAP_MS, 100],
    );
    assert.deepEqual(await Promise.all(['h1', 'h2', 'h3'].map(async (name) => (await rig.active(name)).length)), [1, 1, 1]);
  });

  for (const late_ms of [0, 1000, 2000, 5000, 5001, 7000, 9000]) {
    test(`of one that dies, the work is back within 15 s, where others look first ${late_ms} ms later and whenever told then`, async () => {
      await rig.create({ tasks: 2 });
      await rig.tick('h2');
      await rig.claim('h1', 2);
      await rig.tick('h1');
      const died_ms = rig.now_ms;
      rig.pass(late_ms);
      let reply = await rig.tick('h2', { gap_ms: 5000 });
      while (reply.recovered === 0) {
        rig.pass(reply.next_ms - rig.now_ms);
        reply = await rig.tick('h2', { gap_ms: 5000 });
      }
      assert.equal(rig.now_ms - died_ms, late_ms > 5000 ? late_ms + AFTER_GAP_MS + 1 : SETTINGS.silence_ms + 1);
      assert.ok(rig.now_ms - died_ms < 15_000);
    });
  }

  test('who owns the partition is told of each that he may not know, to look in two seconds', async () => {
    const hints = rig.redis.duplicate();
    const heard: string[] = [];
    hints.on('smessage', (_, message: string) => heard.push(message));
    await hints.ssubscribe(keys.bell(0));
    for (let k = 0; k < 3; k++) await rig.create();
    await until(() => heard.length === 3, 5_000, 'the bells of what was created');
    heard.length = 0;
    await rig.claim('h1', 1);
    await rig.claim('h1', 1);
    rig.pass(500);
    await rig.claim('h3', 1);
    await until(() => heard.length > 1, 5_000, 'the bells');
    hints.disconnect();
    assert.deepEqual(heard, [String(T0 + 2000), String(T0 + 2500)]);
  });

  test('who claims lives, however long ago he ticked', async () => {
    for (let k = 0; k < 2; k++) await rig.create();
    await rig.claim('h1', 1);
    await rig.passWith('h2', SETTINGS.silence_ms);
    await rig.claim('h1', 1);
    rig.pass(1);
    assert.equal((await rig.tick('h2')).recovered, 0);
  });

  test('200 names a call', async () => {
    rig.checks = false;
    for (let k = 0; k < 230; k++) await rig.create({ tasks: 1 });
    for (let calls = 0; calls < 10; calls++) await rig.claim('h1', 128);
    rig.checks = true;
    assert.equal((await rig.active('h1')).length, 230);
    await rig.tick('h1');
    await rig.passWith('h2', 8000);
    rig.pass(1);
    const counts = [await rig.tick('h2'), await rig.tick('h2')];
    assert.deepEqual(
      counts.map(({ recovered, more }) => [recovered, more]),
      [
        [200, true],
        [30, false],
      ],
    );
  });

  test('when those at their last chance come back is told by the tick that puts them back', async () => {
    await rig.create({ tasks: 3 });
    await rig.claim('h1', 3);
    await rig.tick('h1');
    await rig.passWith('h2', SETTINGS.silence_ms);
    rig.pass(1);
    const { recovered, next_ms } = await rig.tick('h2', { recoveries_max: 2 });
    assert.deepEqual([recovered, next_ms - rig.now_ms], [3, 100 - DUE_AHEAD_MS]);
    rig.pass(100 - DUE_AHEAD_MS);
    const { promoted, next_ms: then_ms } = await rig.tick('h2', { recoveries_max: 2 });
    assert.deepEqual([promoted, then_ms - rig.now_ms], [1, 100]);
  });

  test('a task lost three times fails as worker_lost', async () => {
    const core = await rig.create({ tasks: 3 });
    for (let k = 1; k <= 3; k++) {
      const tasks = await rig.claim(`h${k}`, 3);
      while (k === 3 && tasks.length < 3) tasks.push(...(await rig.claim('h3', 3)));
      assert.deepEqual(
        tasks.map(({ attempt, recoveries }) => [attempt, recoveries]),
        Array.from({ length: 3 }, () => [k, k - 1]),
      );
      await rig.passWith('h9', 12_000);
    }
    const batch = await rig.batch(core);
    assert.deepEqual([batch.status, batch.f], ['failed', 3]);
    const row = (await readTask(rig.redis, ACCOUNT, core, 1))?.row;
    assert.deepEqual(JSON.parse(row?.result ?? '').slice(1, 6), [3, 3, null, null, 'worker_lost']);
  });

  test('of a cancelled batch: what was lost has failed, and the batch ends', async () => {
    const core = await rig.create({ tasks: 2 });
    await rig.claim('h1', 2);
    await rig.cancel(core);
    await rig.passWith('h2', 12_000);
    const batch = await rig.batch(core);
    assert.deepEqual([batch.status, batch.f, batch.r], ['cancelled', 2, 0]);
  });

  test('a holder that lives loses what is longer in flight than its lease', async () => {
    const core = await rig.create({ tasks: [{ timeout_s: 1 }, { timeout_s: 60 }] });
    const tasks = await rig.claim('h1', 2);
    for (let k = 0; k < 4; k++) {
      await rig.passWith('h1', 2000);
    }
    assert.equal((await rig.batch(core)).r, 1);
    await rig.settle('h1', tasks, 'c');
    const batch = await rig.batch(core);
    assert.deepEqual([batch.c, batch.states[0]], [1, 'r']);
  });

  test('who left with nothing in flight is forgotten, his last claim too', async () => {
    await rig.create();
    await rig.settle('h1', await rig.claim('h1', 1), 'c');
    await rig.tick('h1');
    const dump = await rig.dump();
    assert.deepEqual([dump.get('holders'), dump.get('claims')], [undefined, undefined]);
  });

  test('who left right after his last outcome, without another tick, is forgotten too', async () => {
    await rig.create();
    await rig.settle('h1', await rig.claim('h1', 1), 'c');
    await rig.passWith('h2', 12_000);
    const dump = await rig.dump();
    assert.deepEqual([dump.get('holders'), dump.get('claims')], [undefined, undefined]);
  });

  test('a reaped holder that comes back finds its call number forgotten and takes anew', async () => {
    const core = await rig.create({ tasks: 4 });
    await rig.claim('h1', 4, { call_no: 5 });
    await rig.passWith('h2', 12_000);
    const again = await rig.claim('h1', 4, { call_no: 5 });
    assert.deepEqual(
      places(again),
      [0, 1, 2, 3].map((i) => `${core},${i}`),
    );
    assert.equal(again[0]?.attempt, 2);
  });
});

describe('retention', () => {
  test('a finished batch is deleted with everything that it had', async () => {
    const core = await rig.create({ tasks: 2100, task_keys: ['k'] });
    await rig.cancel(core);
    const { core: other } = await rig.single();
    rig.pass(SETTINGS.keep_ms - 1);
    assert.equal((await rig.tick('h1')).deleted, 0);
    rig.pass(1);
    assert.equal((await rig.tick('h1')).deleted, 1);
    const dump = await rig.dump();
    assert.deepEqual(
      [...dump.keys()].filter((name) => name.includes(core)),
      [],
    );
    assert.ok(dump.has(`b:${other}`));
  });

  test('queue entries of what was deleted come to nothing', async () => {
    const core = await rig.create({ tasks: [{}, { due_ms: T0 + 500_000 }] });
    await rig.cancel(core);
    rig.pass(SETTINGS.keep_ms);
    await rig.tick('h1');
    rig.pass(500_000);
    await rig.tick('h1');
    assert.deepEqual(await rig.claim('h1', 10), []);
    assert.deepEqual(await rig.dump().then((dump) => [dump.get('delayed'), dump.get(`f:f:${ACCOUNT}:o1`)]), [undefined, undefined]);
  });

  test('a batch of 1,300 segments goes in slices of 500, and is seen by nobody meanwhile', async () => {
    const core = await rig.create({ tasks: 1 });
    const packed = Buffer.alloc(1300 * 4);
    const pipeline = rig.redis.pipeline();
    for (let k = 0; k < 1300; k++) {
      packed.writeUInt32BE(k, k * 4);
      if (k > 0) pipeline.hset(keys.segment(0, core, k), '0', Buffer.from([0, 0, 0, 2, 0, 0]));
    }
    pipeline.hset(keys.batch(0, core), 'g', packed, 'n', 1300);
    pipeline.set(keys.states(0, core), 'q'.repeat(1300));
    await pipeline.exec();
    rig.checks = false;
    await rig.cancel(core);
    rig.checks = true;
    rig.pass(SETTINGS.keep_ms);
    const left: number[] = [];
    for (let calls = 0; calls < 3; calls++) {
      const { more } = await rig.tick('h1');
      left.push([...(await rig.dump()).keys()].filter((name) => name.includes(core)).length);
      assert.equal(more, calls < 2);
      assert.deepEqual(await rig.cancel(core), { kind: 'missing' });
      assert.equal(await rig.cancelTask(core, 0), 'missing');
    }
    assert.deepEqual(left, [802, 302, 0]);
  });

  test('60 finished batches go 50 a call', async () => {
    for (let k = 0; k < 60; k++) await rig.cancel(await rig.create());
    rig.pass(SETTINGS.keep_ms);
    assert.deepEqual([(await rig.tick('h1')).deleted, (await rig.tick('h1')).deleted], [50, 10]);
  });
});

describe('when to come again', () => {
  test('the next thing that is due, and soon while somebody has work', async () => {
    const core = await rig.create({ tasks: [{ due_ms: T0 + 9000 }, {}], expiration_ms: 30_000 });
    assert.equal((await rig.tick('h1')).next_ms, T0 + 9000 - DUE_AHEAD_MS);
    await rig.claim('h1', 1);
    assert.equal((await rig.tick('h1')).next_ms, T0 + 2000);
    assert.equal((await rig.tick('h2')).next_ms, T0 + 2000);
    await rig.cancel(core);
    await rig.check();
  });

  test('an empty partition knows of nothing', async () => {
    const { next_ms, more, ready } = await rig.tick('h1');
    assert.deepEqual([next_ms, more, ready], [0, false, false]);
  });
});
