// lua/partition/tick.lua: work whose time comes.
import assert from 'node:assert/strict';
import { after, beforeEach, describe, test } from 'node:test';
import { ACCOUNT, startRig, T0 } from '../../helpers/rig.ts';

const rig = await startRig();
after(() => rig.redis.disconnect());
beforeEach(() => rig.reset());

describe('due work', () => {
  test('comes when its time has come, 200 entries a call, and says when more is', async () => {
    for (let k = 0; k < 5; k++) await rig.create({ tasks: Array.from({ length: 60 }, (_, i) => ({ due_ms: T0 + 1000 + i })) });
    const early = await rig.tick('h1');
    assert.deepEqual([early.promoted, early.next_ms, early.ready], [0, T0 + 1000, false]);
    rig.pass(1039);
    const first = await rig.tick('h1');
    assert.deepEqual([first.promoted, first.more, first.ready, first.next_ms], [200, true, true, T0 + 1040]);
    rig.pass(1000);
    const second = await rig.tick('h1');
    assert.deepEqual([second.promoted, second.more], [100, false]);
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
