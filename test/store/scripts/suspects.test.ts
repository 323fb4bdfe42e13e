// Tasks at their last chance: lua/lib/suspect.lua, in partition/tick and partition/claim.
import assert from 'node:assert/strict';
import { after, beforeEach, describe, test } from 'node:test';
import { keys } from '../../../src/store/keys.ts';
import { DUE_AHEAD_MS, startRig } from '../../helpers/rig.ts';

const rig = await startRig();
after(() => rig.redis.disconnect());
beforeEach(() => rig.reset());

describe('tasks at their last chance', () => {
  /** Tasks that were in flight at two deaths. */
  async function lostTwice(count: number): Promise<string> {
    const core = await rig.create({ tasks: count });
    for (const holder of ['h1', 'h2']) {
      for (let left = count; left > 0; ) left -= (await rig.claim(holder, 1_000)).length;
      await rig.passWith('h9', 12_000);
    }
    return core;
  }

  test('a claim brings one of those at their last chance where it may, and all others', async () => {
    await lostTwice(3);
    await rig.create({ tasks: 20 });
    const fresh = Array.from({ length: 20 }, () => 0);
    for (const brought of [[...fresh, 2], [2], [2], []]) {
      const { tasks, more } = await rig.claimed('h3', 100, { suspects: 1 });
      assert.deepEqual([tasks.map(({ recoveries }) => recoveries).toSorted(), more], [brought, false]);
      rig.pass(100);
      await rig.tick('h3');
    }
  });

  test('where a claim may bring none they wait in line, not in flight', async () => {
    const core = await lostTwice(3);
    await rig.create({ tasks: 20 });
    const { tasks, first_due_ms, more } = await rig.claimed('h3', 100, { suspects: 0 });
    assert.deepEqual([tasks.length, tasks.some(({ recoveries }) => recoveries > 0), more], [20, false, false]);
    assert.equal(first_due_ms - rig.now_ms, 100 - DUE_AHEAD_MS);
    assert.equal((await rig.batch(core)).r, 0);
    rig.pass(100);
    await rig.tick('h3');
    const again = await rig.claimed('h3', 100, { suspects: 0 });
    assert.deepEqual([again.tasks.length, again.first_due_ms - rig.now_ms], [0, 300 - DUE_AHEAD_MS], 'at the end of the line');
    for (let k = 0; k < 3; k++) {
      rig.pass(100);
      await rig.tick('h3');
      assert.deepEqual(
        (await rig.claim('h3', 100)).map(({ recoveries }) => recoveries),
        [2],
      );
    }
  });

  test('a claim that did not ask ends where it meets one, which stays the next', async () => {
    await lostTwice(3);
    const before = await rig.dump();
    for (let k = 0; k < 2; k++) {
      const { tasks, suspects, more } = await rig.claimed('h3', 100, { suspects: -1 });
      assert.deepEqual([tasks, suspects, more], [[], 1, true]);
      assert.deepEqual((await rig.dump()).get('delayed'), before.get('delayed'));
    }
    const { tasks, suspects } = await rig.claimed('h3', 100, { suspects: 1 });
    assert.deepEqual([tasks.map(({ recoveries }) => recoveries), suspects], [[2], 2]);
    await rig.create({ tasks: 20 });
    for (let claims = 0, started = 0; started < 20; claims++) {
      assert.ok(claims < 3, 'who asks for none gets all else');
      started += (await rig.claim('h3', 100, { suspects: claims === 0 ? -1 : 0 })).length;
    }
  });

  test('of those that came up together, as one range, a claim brings one', async () => {
    await lostTwice(3);
    const [flow = ''] = [...(await rig.dump()).keys()].filter((name) => name.startsWith('f:r:'));
    const key = keys.partition(0).slice(0, -1) + flow;
    const entries = (await rig.redis.lrange(key, 0, '-1')).toSorted();
    await rig.redis.del(key);
    await rig.redis.rpush(key, (entries[0] ?? '').replace(',0,0,', ',0,2,'));
    assert.deepEqual(
      (await rig.claim('h3', 100, { suspects: 1 })).map(({ index, recoveries }) => [index, recoveries]),
      [[0, 2]],
    );
    rig.pass(100);
    await rig.tick('h3');
    assert.deepEqual(
      (await rig.claim('h3', 100, { suspects: 1 })).map(({ index, recoveries }) => [index, recoveries]),
      [[1, 2]],
    );
  });
});
