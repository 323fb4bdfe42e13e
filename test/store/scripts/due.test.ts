// lua/partition/tick.lua: work whose time comes.
import assert from 'node:assert/strict';
import { after, beforeEach, describe, test } from 'node:test';
import { type Claimed, startsIn } from '../../../src/store/claimed.ts';
import { ACCOUNT, DUE_AHEAD_MS, startRig, T0 } from '../../helpers/rig.ts';

const rig = await startRig();
after(() => rig.redis.disconnect());
beforeEach(() => rig.reset());

describe('due work', () => {
  test('comes when its time has come, 200 entries a call, and says when more is', async () => {
    for (let k = 0; k < 5; k++) await rig.create({ tasks: Array.from({ length: 60 }, (_, i) => ({ due_ms: T0 + 1000 + i })) });
    const early = await rig.tick('h1');
    assert.deepEqual([early.promoted, early.next_ms, early.ready], [0, T0 + 1000 - DUE_AHEAD_MS, false]);
    rig.pass(1039 - DUE_AHEAD_MS);
    const first = await rig.tick('h1');
    assert.deepEqual([first.promoted, first.more, first.ready, first.next_ms], [200, true, true, T0 + 1040 - DUE_AHEAD_MS]);
    rig.pass(1000);
    const second = await rig.tick('h1');
    assert.deepEqual([second.promoted, second.more], [100, false]);
  });

  test('is claimed a moment before its time, and says when that is', async () => {
    await rig.create({ tasks: [{ due_ms: T0 + 1000 }, { due_ms: T0 + 1003 }, { due_ms: T0 + 1000 + DUE_AHEAD_MS + 1 }] });
    rig.pass(1000 - DUE_AHEAD_MS - 1);
    assert.deepEqual((await rig.tick('h1')).promoted, 0);
    rig.pass(1);
    const { promoted, next_ms } = await rig.tick('h1');
    assert.deepEqual([promoted, next_ms], [1, T0 + 1003 - DUE_AHEAD_MS]);
    rig.pass(3);
    await rig.tick('h1');
    const { tasks } = await rig.claimed('h1', 10);
    assert.deepEqual(
      tasks.map((task) => startsIn(task, T0 + 998)),
      [2, 5],
    );
    await rig.check();
  });

  test('of a limiter, or of many origins, is not', async () => {
    const limit = { name: 'limiter', lane: 'lane1', kind: 'w', cost: 1, valid_ms: 0 };
    await rig.create({ tasks: [{ due_ms: T0 + 1000, limit }] });
    await rig.create({ tasks: [{ due_ms: T0 + 1000, origin: '*' }] });
    rig.pass(1000 - DUE_AHEAD_MS);
    const { promoted, next_ms, more } = await rig.tick('h1');
    assert.deepEqual([promoted, next_ms, more], [0, T0 + 1000, false]);
    rig.pass(DUE_AHEAD_MS);
    assert.equal((await rig.tick('h1')).promoted, 2);
  });

  test('of limiters, and more than a call reads, is not asked for again before the first of it is due', async () => {
    const limit = { name: 'limiter', lane: 'lane1', kind: 'w', cost: 1, valid_ms: 0 };
    for (let k = 0; k < 5; k++)
      await rig.create({ tasks: Array.from({ length: 60 }, (_, i) => ({ due_ms: T0 + 1000 + (i % 10), limit })) });
    rig.pass(999);
    const { promoted, next_ms, more } = await rig.tick('h1');
    assert.deepEqual([promoted, next_ms, more], [0, T0 + 1000, false]);
  });

  test('that seems far, since the clock was set back, starts at once', () => {
    const claimed = { granted_age_ms: 0, due_ms: T0 + 3_600_000 } as Claimed;
    assert.equal(startsIn(claimed, T0), 0);
  });

  test('of a batch that was cancelled comes to nothing', async () => {
    const core = await rig.create({ tasks: [{ due_ms: T0 + 10 }] });
    await rig.cancel(core);
    rig.pass(10);
    await rig.tick('h1');
    const { more, tasks } = await rig.claimed('h1', 1);
    assert.deepEqual([more, tasks.length], [false, 0]);
    await rig.check();
  });

  test('single tasks that become due together are one range; others, and those of another time or timeout, are not', async () => {
    const due_ms = T0 + 1000;
    let core = '';
    for (let i = 0; i < 12; i++) ({ core } = await rig.single([{ due_ms }]));
    await rig.single([{ due_ms: due_ms + 1 }]);
    await rig.single([{ due_ms }]);
    await rig.single([{ due_ms, timeout_s: 7 }]);
    await rig.single([{ due_ms, origin: 'o2' }]);
    await rig.cancelTask(core, 5);
    rig.pass(2_000);
    assert.equal((await rig.tick('h1')).promoted, 16);
    const dump = await rig.dump();
    assert.deepEqual(dump.get(`f:f:${ACCOUNT}:o1`)?.items, [
      `${core},0,11,0,0,30,${due_ms}`,
      `${core},13,13,0,0,30,${due_ms}`,
      `${core},14,14,0,0,7,${due_ms}`,
      `${core},12,12,0,0,30,${due_ms + 1}`,
    ]);
    const started = await rig.claim('h1', 100);
    assert.deepEqual(
      started.map(({ index }) => index).sort((a, b) => a - b),
      [0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
    );
  });
});
