// lua/partition/tick.lua where the clock of the shard was set, or stood still with everything.
import assert from 'node:assert/strict';
import { after, beforeEach, describe, test } from 'node:test';
import { SETTINGS, startRig } from '../../helpers/rig.ts';

const rig = await startRig();
after(() => rig.redis.disconnect());
beforeEach(() => rig.reset());

describe('silent holders where time jumped', () => {
  test('a freeze that outlasts the leases is nobody’s fault: who lives has time to settle', async () => {
    const core = await rig.create({ tasks: 2 });
    const tasks = await rig.claim('h1', 2);
    await rig.tick('h1');
    rig.pass(60_000);
    await rig.tick('h2');
    assert.equal((await rig.batch(core)).r, 2);
    await rig.settle('h1', tasks, 'c');
    assert.equal((await rig.batch(core)).status, 'completed');
  });

  test('a clock that steps back takes nothing from anybody', async () => {
    const core = await rig.create({ tasks: 2 });
    await rig.claim('h1', 2);
    await rig.tick('h1');
    rig.pass(-3_600_000);
    await rig.passWith('h2', 8000);
    assert.equal((await rig.batch(core)).r, 2);
    await rig.passWith('h2', 4000);
    assert.equal((await rig.batch(core)).r, 0);
  });

  test('nor from him who claims between the step back and the next tick', async () => {
    for (let k = 0; k < 2; k++) await rig.create();
    await rig.claim('h1', 1);
    await rig.tick('h2');
    rig.pass(-3_600_000);
    await rig.claim('h3', 1);
    rig.pass(10);
    assert.equal((await rig.tick('h2')).recovered, 0);
    assert.deepEqual([(await rig.active('h1')).length, (await rig.active('h3')).length], [1, 1]);
    await rig.passWith('h2', SETTINGS.silence_ms);
    rig.pass(1);
    await rig.tick('h2');
    assert.deepEqual([(await rig.active('h1')).length, (await rig.active('h3')).length], [0, 0]);
  });

  test('the leases of a partition that was empty while the clock stepped back count again after the silence', async () => {
    rig.pass(3_600_000);
    await rig.create();
    const tasks = await rig.claim('h1', 1);
    rig.pass(60_000);
    await rig.tick('h1');
    await rig.settle('h1', tasks, 'c');
    await rig.tick('h1');
    rig.pass(-3_600_000);
    const core = await rig.create({ tasks: [{ timeout_s: 1 }] });
    await rig.claim('h1', 1);
    for (let k = 0; k < 8; k++) await rig.passWith('h1', 2000);
    assert.equal((await rig.batch(core)).r, 0);
  });
});
