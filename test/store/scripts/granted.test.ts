// What limiters granted, on its way to its start: to the part of a ms, and over a clock that is set.
import assert from 'node:assert/strict';
import { after, beforeEach, describe, test } from 'node:test';
import { keys } from '../../../src/store/keys.ts';
import { readSlices, receive, relay } from '../../../src/store/outbox.ts';
import { outboxReceive, partitionGrant } from '../../../src/store/scripts.gen.ts';
import { grant, limiter } from '../../helpers/limited-scene.ts';
import { SETTINGS, startRig } from '../../helpers/rig.ts';

const rig = await startRig();
after(() => rig.redis.disconnect());
beforeEach(() => rig.reset());

const AHEAD_US = 60_000;
const HOUR_MS = 3_600_000;

/** Four tasks whose window lets two of them start now; its messages wait to be carried over. */
async function granted(): Promise<void> {
  const limit = await limiter(rig, 'two', 'window', { limit: 2, interval: 1 });
  await rig.create({ tasks: Array.from({ length: 4 }, () => ({ limit })) });
  await relay(rig.redis, 0);
  await grant(rig.redis, rig.now_ms, AHEAD_US);
}

describe('grants', () => {
  test('it is told to the part of a ms how long ago a task was let start', async () => {
    await granted();
    const { slices } = await readSlices(rig.redis, 0);
    for (const slice of slices)
      await receive(rig.redis, 0, { ...slice, source_ms: slice.source_ms + 2.25, read_ms: performance.now() }, SETTINGS);
    const ages_ms = (await rig.claim('h1', 10)).map(({ granted_age_ms }) => granted_age_ms);
    assert.equal(ages_ms.length, 2);
    for (const age_ms of ages_ms) assert.ok(age_ms >= 2.25 && age_ms < 50 && !Number.isInteger(age_ms), `${age_ms} ms`);
  });

  test('what it took to carry the message is not taken for time that has not passed: one Redis has one clock', async () => {
    await granted();
    const { slices } = await readSlices(rig.redis, 0);
    rig.pass(30);
    for (const slice of slices) await receive(rig.redis, 0, { ...slice, read_ms: performance.now() }, SETTINGS);
    const ages_ms = (await rig.claim('h1', 10)).map(({ granted_age_ms }) => granted_age_ms);
    assert.deepEqual(ages_ms, [30, 30]);
  });

  test('so nobody asks what time it is', async () => {
    await granted();
    const clocks = { ahead_ms: () => assert.fail('it was asked for'), heard: () => assert.fail('it was told') };
    assert.equal((await relay(rig.redis, 0, { clocks })).moved, 1);
  });

  test('and of two it is known how far the one is ahead of the other', async () => {
    await granted();
    const { slices } = await readSlices(rig.redis, 0);
    rig.pass(30);
    for (const { destination, messages, source_ms } of slices) {
      const { keep_ms, tray_keep_ms } = SETTINGS;
      const args = { source: 0, source_ms, unsure_ms: 1, ahead_ms: 0.5, keep_ms, tray_keep_ms, messages };
      await outboxReceive.call(rig.redis, { meta: keys.partition(destination) }, args);
    }
    const ages_ms = (await rig.claim('h1', 10)).map(({ granted_age_ms }) => granted_age_ms);
    assert.deepEqual(ages_ms, [29.5, 29.5]);
  });

  test('a reply that leaves out what waits for somebody says so', async () => {
    const limit = await limiter(rig, 'window', 'window', { limit: 3_000, interval: 1 });
    await rig.create({ tasks: Array.from({ length: 3_000 }, () => ({ limit })) });
    await relay(rig.redis, 0);
    const seen: [left: boolean, carried: number][] = [];
    for (let look = 0; look < 4; look++) {
      const args = { lanes_max: 16, tasks_max: 500, ahead_us: AHEAD_US, now_us: rig.now_ms * 1_000 };
      const [, , , left, , slices] = await partitionGrant.call(rig.redis, { meta: keys.partition(0) }, args);
      seen.push([left === 1, slices.reduce((sum, [, messages]) => sum + messages.length, 0)]);
      rig.pass(30);
    }
    const [[, first] = [], ...later] = seen;
    assert.ok(first !== undefined && first > 20, 'a message for each ms');
    assert.deepEqual([seen[0]?.[0], later.at(-1)], [false, [true, 0]], JSON.stringify(seen));
    for (const [left, carried] of seen) assert.equal(left, carried === 0);
  });

  test('of a grant that is more than one call may take the rest is told of', async () => {
    const limit = await limiter(rig, 'many', 'concurrent', { limit: 40, lock_timeout: 60 });
    await rig.create({ tasks: Array.from({ length: 40 }, () => ({ limit })) });
    await relay(rig.redis, 0);
    await grant(rig.redis, rig.now_ms, AHEAD_US);
    await relay(rig.redis, 0);
    const first = await rig.claimed('h1', 16);
    assert.deepEqual([first.tasks.length, first.more], [16, true]);
    const rest = await rig.claimed('h1', 40);
    assert.deepEqual([rest.tasks.length, rest.more], [24, false]);
  });

  test('grants that all wait for room are no reason to ask again at once', async () => {
    const limit = await limiter(rig, 'many', 'window', { limit: 200, interval: 1 });
    for (let k = 0; k < 130; k++) await rig.create({ tasks: [{ limit }] });
    await relay(rig.redis, 0);
    for (let waits = 130; waits > 0; rig.pass(20)) {
      await grant(rig.redis, rig.now_ms, AHEAD_US);
      await relay(rig.redis, 0);
      waits = 130 - (await rig.redis.zcard(`${keys.partition(0).slice(0, -1)}granted`));
    }
    const full = await rig.claimed('h1', 40, { rooms: [['o1', 0]] });
    assert.deepEqual([full.tasks.length, full.more, full.parked], [0, false, ['o1']]);
    const first = await rig.claimed('h1', 40, { unpark: ['o1'] });
    assert.deepEqual([first.tasks.length, first.more], [40, true]);
  });

  for (const back_ms of [5_000, HOUR_MS]) {
    test(`what was granted before the clock was set back by ${back_ms / 1000} s does not start when that time comes again`, async () => {
      await granted();
      rig.pass(-back_ms);
      await relay(rig.redis, 0);
      assert.deepEqual(await rig.claim('h1', 10), []);
      assert.equal(await rig.redis.zcard(`${keys.partition(0).slice(0, -1)}granted`), 0);
    });

    test(`nor where it had come back already when the clock was set back by ${back_ms / 1000} s`, async () => {
      await granted();
      await relay(rig.redis, 0);
      rig.pass(-back_ms);
      assert.deepEqual(await rig.claim('h1', 10), []);
      // It waits at its limiter again, and starts when that lets it.
      await relay(rig.redis, 0);
      rig.pass(2_000);
      await grant(rig.redis, rig.now_ms, AHEAD_US);
      await relay(rig.redis, 0);
      assert.equal((await rig.claim('h1', 10)).length, 2);
    });
  }
});
