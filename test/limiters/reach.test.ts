// How far ahead of its time a lane grants: all that it may where much starts, half of that where few start, or very many.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { readUsage } from '../../src/store/limiter-usage.ts';
import { ACCOUNT, Lane } from '../helpers/lane.ts';
import { startRedis } from '../helpers/redis.ts';

const T = 1_800_000_000_000_000;
const AHEAD_US = 60_000;

const { redis, stop } = await startRedis();
after(stop);

for (const [partition, rate, least_ms, most_ms] of [
  [0, 100, 25, 30],
  [2, 300, 50, 60],
  [4, 1_000, 50, 60],
  [6, 1_600, 35, 40],
  [8, 4_000, 25, 30],
] as const) {
  test(`of ${rate} a second the last that a look grants starts ${least_ms} to ${most_ms} ms later`, async () => {
    const lane = await Lane.create(redis, partition, { type: 'leaky', config: { capacity: 10, drain_rate: rate, interval: 1 }, now_us: T });
    await lane.queue(T, { batch: lane.newBatch(T), from: 0, to: 499, first_ms: T / 1_000 });
    const { sent } = await lane.lookAll(T, AHEAD_US);
    const last_ms = Math.max(...sent.map((one) => (one.kind === 'grant' ? one.granted_ms - T / 1_000 : 0)));
    assert.ok(last_ms >= least_ms && last_ms <= most_ms, `${last_ms} ms`);
  });
}

// 10 of 1,000 a second: 2 drip in within 2 ms. Looks that grant nothing ahead, so that each says what fits at its time.
test('a bucket that was not empty leaves room for what 2 ms let drip in, an empty one none', async () => {
  const lane = await Lane.create(redis, 10, { type: 'leaky', config: { capacity: 10, drain_rate: 1_000, interval: 1 }, now_us: T });
  await lane.queue(T, { batch: lane.newBatch(T), from: 0, to: 0, first_ms: T / 1_000, cost: 10 });
  await lane.queue(T, { batch: lane.newBatch(T), from: 0, to: 499, first_ms: T / 1_000 });
  const grants: number[] = [];
  for (const ms of [0, 2, 3, 10, 11, 19]) grants.push((await lane.lookAll(T + ms * 1_000)).granted);
  // All of an empty one at once; then 8 are in it at most, until it is empty again.
  assert.deepEqual(grants, [1, 0, 1, 7, 1, 10]);
  // What is left free is no more to be had for who asks how it is used: 8 are in it 2 ms later, 7 after another.
  const usage = await readUsage(redis, ACCOUNT, lane.core, T + 21_000);
  assert.deepEqual([usage?.available, usage?.next_available_ms], [0, T / 1_000 + 22]);
});

// One range of many tasks, and many of one, take the same: all of an empty bucket of 10 every 2 ms.
for (const tasks of [400, 1]) {
  test(`what drips into a bucket in 2 ms goes to ranges of ${tasks} without loss`, async () => {
    const lane = await Lane.create(redis, 11, { type: 'leaky', config: { capacity: 10, drain_rate: 5_000, interval: 1 }, now_us: T });
    const batch = lane.newBatch(T);
    for (let from = 0; from < 400; from += tasks) await lane.queue(T, { batch, from, to: from + tasks - 1, first_ms: T / 1_000 });
    const { sent } = await lane.lookAll(T, AHEAD_US);
    let started = 0;
    for (const one of sent) {
      if (one.kind === 'grant' && one.granted_ms < T / 1_000 + 20) started += one.range.to - one.range.from + 1;
    }
    assert.equal(started, 100);
  });
}
