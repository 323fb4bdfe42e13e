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
});
