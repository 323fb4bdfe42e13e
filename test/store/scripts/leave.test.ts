// A task that is cancelled by itself leaves its limiter's line: nobody waits for it, nothing counts it, and neither a grant that is
// under way nor a failover of either side makes more of the rest than there is.
import assert from 'node:assert/strict';
import { after, beforeEach, describe, test } from 'node:test';
import { newCore } from '../../../src/base/id.ts';
import { keys } from '../../../src/store/keys.ts';
import { readUsage } from '../../../src/store/limiter-usage.ts';
import { createLimiter } from '../../../src/store/limiters.ts';
import { acknowledge, readSlices, receive, relay, type Slice, sweep } from '../../../src/store/outbox.ts';
import { partitionGrant } from '../../../src/store/scripts.gen.ts';
import { ACCOUNT, SETTINGS, startRig } from '../../helpers/rig.ts';

const NAME = 'lim';
const WEEK_S = 604_800;
/** Longer than a reference is left alone. */
const LONG_MS = 40_000;
const [TASKS, LANE] = [0, 1] as const;
const rig = await startRig();
after(() => rig.redis.disconnect());
beforeEach(() => rig.reset(2));

const root = (partition: number): string => keys.partition(partition).slice(0, -1);

interface Limit {
  name: string;
  lane: string;
  kind: 'w';
  cost: number;
  valid_ms: number;
}

/** So many a second. */
async function limiter(limit: number, queue_s = WEEK_S): Promise<Limit> {
  const lane = newCore(LANE, rig.now_ms);
  await createLimiter(rig.redis, {
    ...{ core: lane, account_id: ACCOUNT, name: NAME, type: 'window', config: { limit, interval: 1 }, description: null },
    ...{ timeouts: { queue_timeout: queue_s, validity_timeout: WEEK_S }, cooldown: 'task' },
  });
  return { name: NAME, lane, kind: 'w', cost: 1, valid_ms: 0 };
}

const limited = (count: number, limit: Limit): object[] => Array.from({ length: count }, () => ({ limit }));
const cancel = async (core: string, index: number): Promise<void> => {
  assert.equal(await rig.cancelTask(core, index, ACCOUNT, NAME), 'cancelled');
};

async function apply(source: number, slices: readonly Slice[]): Promise<void> {
  for (const slice of slices) {
    const { done, mark } = await receive(rig.redis, source, slice, SETTINGS);
    await acknowledge(rig.redis, source, { ...slice, messages: slice.messages.slice(0, done) }, mark);
  }
}

async function relayAll(): Promise<void> {
  for (const source of [TASKS, LANE]) await relay(rig.redis, source);
}

async function grant(): Promise<void> {
  const args = { lanes_max: 16, tasks_max: 500, ahead_us: 0, now_us: rig.now_ms * 1_000 };
  await partitionGrant.call(rig.redis, { meta: keys.partition(LANE) }, args);
}

/** A second passes; the tasks that start in it, and end. */
async function second(): Promise<number[]> {
  rig.pass(1_100);
  await relayAll();
  await grant();
  await relayAll();
  const tasks = await rig.claim('h1', 10);
  if (tasks.length > 0) await rig.settle('h1', tasks, 'c');
  await relayAll();
  return tasks.map(({ index }) => index);
}

async function starts(seconds: number): Promise<number[]> {
  const started: number[] = [];
  for (let i = 0; i < seconds; i++) started.push(...(await second()));
  return started;
}

/** What is left of the line, and of what is known of it. */
async function rest({ lane }: Limit) {
  const key = `${root(LANE)}lane:${lane}`;
  const [usage, waiting, ranges, away] = await Promise.all([
    readUsage(rig.redis, ACCOUNT, lane, rig.now_ms * 1_000),
    rig.redis.hgetall(`${key}:n`),
    rig.redis.hkeys(`${key}:e`),
    rig.redis.hkeys(`${root(TASKS)}away`),
  ]);
  return { queued: usage?.queued, waiting, ranges, away };
}

const NOTHING = { queued: 0, waiting: {}, ranges: [], away: [] };

/** All of a partition, and what brings it back. */
async function snapshot(partition: number): Promise<() => Promise<void>> {
  const names = await rig.redis.keys(`${root(partition)}*`);
  const dumps = await Promise.all(names.map(async (name) => [name, await rig.redis.dumpBuffer(name)] as const));
  return async () => {
    const now = await rig.redis.keys(`${root(partition)}*`);
    if (now.length > 0) await rig.redis.del(...now);
    for (const [name, dump] of dumps) if (dump !== null) await rig.redis.restore(name, 0, dump);
  };
}

describe('a cancelled task and the line', () => {
  test('it leaves from wherever it stands, once, and the others keep their order', async () => {
    const limit = await limiter(2);
    const core = await rig.create({ tasks: limited(9, limit) });
    await relayAll();
    for (const index of [4, 8, 0, 5, 4]) await cancel(core, index);
    await relayAll();
    assert.equal((await rest(limit)).queued, 5);
    assert.deepEqual(await starts(4), [1, 2, 3, 6, 7]);
    rig.pass(LONG_MS);
    await sweep(rig.redis, TASKS);
    assert.deepEqual(await rest(limit), NOTHING);
  });

  test('what comes to its batch, or its tray, later waits as ever', async () => {
    const limit = await limiter(1);
    const core = await rig.create({ tasks: limited(3, limit) });
    await cancel(core, 2);
    await rig.add(core, limited(2, limit));
    assert.deepEqual(await starts(6), [0, 1, 3, 4]);
    const tray = await rig.single(limited(1, limit));
    await rig.single(limited(1, limit), { place: 1 });
    await cancel(tray.core, 1);
    await rig.single(limited(1, limit), { place: 2 });
    assert.deepEqual(await starts(4), [0, 2]);
  });

  test('what a grant that is under way has let start is not handed over again', async () => {
    const limit = await limiter(2);
    const core = await rig.create({ tasks: limited(8, limit) });
    await relayAll();
    await grant();
    const { slices } = await readSlices(rig.redis, LANE);
    for (const index of [7, 6]) await cancel(core, index);
    await apply(LANE, slices);
    const tasks = await rig.claim('h1', 10);
    assert.deepEqual(
      tasks.map(({ index }) => index),
      [0, 1],
    );
    await rig.settle('h1', tasks, 'r', { delay_ms: 600_000 });
    assert.deepEqual(await starts(4), [2, 3, 4, 5]);
    for (let i = 0; i < 3; i++) {
      rig.pass(LONG_MS);
      await sweep(rig.redis, TASKS);
      assert.deepEqual(await second(), []);
    }
    assert.deepEqual(await rest(limit), NOTHING);
  });

  test('one whose cancel was forgotten is not lost where the others fail', async () => {
    const limit = await limiter(1, 2);
    const core = await rig.create({ tasks: limited(3, limit) });
    const failOver = await snapshot(TASKS);
    await relayAll();
    await cancel(core, 0);
    await relayAll();
    await failOver();
    await relayAll();
    rig.pass(2_500);
    await grant();
    await relayAll();
    assert.equal((await rig.batch(core)).f, 2);
    rig.pass(LONG_MS);
    await sweep(rig.redis, TASKS);
    await relayAll();
    assert.deepEqual(await starts(2), [0]);
  });

  test('a count that a version before has left too low does not let the line sleep', async () => {
    const limit = await limiter(1);
    await rig.create({ tasks: limited(1, limit) });
    assert.deepEqual(await starts(1), [0]);
    await rig.redis.hset(`${root(LANE)}lane:${limit.lane}`, 'waiting', -1);
    await rig.create({ tasks: limited(1, limit) });
    assert.deepEqual(await starts(1), [0]);
  });

  for (const partition of [TASKS, LANE]) {
    test(`nothing is counted twice after a failover of the ${partition === TASKS ? 'tasks' : 'lane'}’s partition that forgets it`, async () => {
      const limit = await limiter(3);
      const core = await rig.create({ tasks: limited(10, limit) });
      await relayAll();
      const failOver = await snapshot(partition);
      for (const index of [9, 5]) await cancel(core, index);
      await relayAll();
      await failOver();
      rig.pass(LONG_MS);
      await sweep(rig.redis, TASKS);
      await relayAll();
      for (const index of [9, 3]) await cancel(core, index);
      const started = await starts(12);
      for (let i = 0; i < 3; i++) {
        rig.pass(LONG_MS);
        await sweep(rig.redis, TASKS);
        started.push(...(await second()));
      }
      // Whose cancel is forgotten runs; the lane, which has not forgotten it, is asked about it.
      assert.deepEqual(started.toSorted(), partition === TASKS ? [0, 1, 2, 4, 5, 6, 7, 8] : [0, 1, 2, 4, 6, 7, 8]);
      assert.deepEqual(await rest(limit), NOTHING);
      await rig.create({ tasks: limited(1, limit) });
      assert.deepEqual(await starts(2), [0]);
    });
  }
});
