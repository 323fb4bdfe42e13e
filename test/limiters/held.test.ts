// A lane whose starts come ever later: who starts them cannot keep up, so it lets nothing start until they have.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Lane } from '../helpers/lane.ts';
import { startRedis } from '../helpers/redis.ts';

const T = 1_800_000_000_000_000;
const T_MS = T / 1000;
const MS = 1_000;
const AHEAD_US = 60_000;
/** Until all have heard of a start. */
const HEARD_MS = 50;

const { redis } = await startRedis();

/** A lane of which 100 tasks were let start, at T and in the ms after it, and many more wait. */
async function begin(partition: number): Promise<{ lane: Lane; last_ms: number }> {
  const config = { capacity: 1_000, drain_rate: 10_000, interval: 1 };
  const lane = await Lane.create(redis, partition, { type: 'leaky', config, now_us: T });
  await lane.queue(T, { batch: lane.newBatch(T), from: 0, to: 9_999, first_ms: T_MS });
  const { granted, sent } = await lane.look(T, 100, 16, AHEAD_US);
  assert.equal(granted, 100);
  return { lane, last_ms: Math.max(...sent.map((one) => (one.kind === 'grant' ? one.granted_ms : 0))) };
}

/** So many messages that starts were so late, each of what was granted at that time. */
const late = (lane: Lane, now_us: number, granted_ms: number, late_ms: number, count: number): Promise<void> =>
  lane.receive(now_us, ...Array.from({ length: count }, () => `late ${lane.core} ${granted_ms} 1 ${late_ms}`));

test('nothing is let start before what was has started, as late as it does, and been heard of', async () => {
  const { lane, last_ms } = await begin(0);
  await late(lane, T + 210 * MS, T_MS, 200, 50);
  const held = await lane.look(T + 210 * MS, 100, 16, AHEAD_US);
  assert.equal(held.granted, 0);
  const until_us = held.next_us ?? 0;
  // The mean of them comes near to what each is.
  const least_us = (last_ms + 190 + HEARD_MS) * MS;
  assert.ok(until_us > least_us && until_us <= least_us + 40 * MS, `${(until_us - T) / MS} ms`);
  assert.equal((await lane.look(until_us - 1 * MS, 100, 16, AHEAD_US)).granted, 0);
  assert.equal((await lane.look(until_us, 100, 16, AHEAD_US)).granted, 100);
});

test('it is held for longer where they turn out later, and no longer than a grant is good for', async () => {
  const { lane, last_ms } = await begin(2);
  await late(lane, T + 210 * MS, T_MS, 200, 50);
  const first = await lane.look(T + 210 * MS, 100, 16, AHEAD_US);
  await late(lane, T + 310 * MS, T_MS, 300, 1);
  const second = await lane.look(first.next_us ?? 0, 100, 16, AHEAD_US);
  assert.deepEqual([second.granted, second.next_us], [0, (last_ms + 300 + HEARD_MS) * MS]);
  await late(lane, T + 320 * MS, T_MS, 5_000, 1);
  const third = await lane.look(second.next_us ?? 0, 100, 16, AHEAD_US);
  assert.deepEqual([third.granted, third.next_us], [0, (last_ms + 500 + HEARD_MS) * MS]);
  assert.equal((await lane.look(third.next_us ?? 0, 100, 16, AHEAD_US)).granted, 100);
});

test('where the way takes that long, nothing is held again', async () => {
  const { lane } = await begin(4);
  await late(lane, T + 210 * MS, T_MS, 200, 50);
  let now_us = (await lane.look(T + 210 * MS, 100, 16, AHEAD_US)).next_us ?? 0;
  for (let i = 0; i < 20; i++) {
    const { granted, sent } = await lane.look(now_us, 100, 16, AHEAD_US);
    assert.equal(granted, 100, `look ${i}`);
    const granted_ms = Math.max(...sent.map((one) => (one.kind === 'grant' ? one.granted_ms : 0)));
    now_us += 220 * MS;
    await late(lane, now_us, granted_ms, 200 + (i % 3) * 20, 20);
  }
});

test('a few late ones hold nothing, nor do all where they are less late than that', async () => {
  const { lane } = await begin(6);
  await late(lane, T + 210 * MS, T_MS, 200, 4);
  assert.equal((await lane.look(T + 210 * MS, 100, 16, AHEAD_US)).granted, 100);
  const { lane: other } = await begin(8);
  await late(other, T + 60 * MS, T_MS, 50, 50);
  assert.equal((await other.look(T + 60 * MS, 100, 16, AHEAD_US)).granted, 100);
});

test('who allows no more than any server can start, or is far from being used up, is not held: others of its tasks may be in time', async () => {
  for (const [partition, type, config] of [
    [24, 'leaky', { capacity: 600, drain_rate: 1_000, interval: 1 }],
    [26, 'leaky', { capacity: 100_000, drain_rate: 100_000, interval: 1 }],
    [28, 'window', { limit: 1_600, interval: 1 }],
    [30, 'window', { limit: 100_000, interval: 1 }],
  ] as const) {
    const lane = await Lane.create(redis, partition, { type, config, now_us: T });
    await lane.queue(T, { batch: lane.newBatch(T), from: 0, to: 999, first_ms: T_MS });
    assert.equal((await lane.look(T, 20, 16, AHEAD_US)).granted, 20);
    await late(lane, T + 210 * MS, T_MS, 200, 50);
    assert.equal((await lane.look(T + 210 * MS, 20, 16, AHEAD_US)).granted, 20, `${type} ${JSON.stringify(config)}`);
  }
});

test('a window that is used up is held', async () => {
  const lane = await Lane.create(redis, 32, { type: 'window', config: { limit: 2_000, interval: 1 }, now_us: T });
  await lane.queue(T, { batch: lane.newBatch(T), from: 0, to: 9_999, first_ms: T_MS });
  let granted = 0;
  let now_us = T;
  for (; granted < 1_500; now_us += 5 * MS) granted += (await lane.look(now_us, 500, 16, AHEAD_US)).granted;
  await late(lane, now_us, now_us / 1_000 - 200, 200, 50);
  assert.equal((await lane.look(now_us, 500, 16, AHEAD_US)).granted, 0);
});

test('a limiter that is deleted while its lane is held, and paused, holds up nobody', async () => {
  const { lane } = await begin(34);
  await late(lane, T + 210 * MS, T_MS, 200, 50);
  assert.equal((await lane.look(T + 210 * MS, 100, 16, AHEAD_US)).granted, 0);
  await lane.pause(T + 211 * MS, null);
  await lane.delete(T + 212 * MS);
  assert.equal((await lane.look(T + 212 * MS, 100, 16, AHEAD_US)).granted, 100);
});

test('a clock that is set back does not hold it until then, whether it was held before that or would be now', async () => {
  const { lane } = await begin(10);
  await late(lane, T + 210 * MS, T_MS, 200, 50);
  assert.equal((await lane.look(T + 210 * MS, 100, 16, AHEAD_US)).granted, 0);
  assert.equal((await lane.look(T - 3_600_000 * MS, 100, 16, AHEAD_US)).granted, 100);
  const { lane: other } = await begin(14);
  await late(other, T + 210 * MS, T_MS, 200, 50);
  assert.equal((await other.look(T - 3_600_000 * MS, 100, 16, AHEAD_US)).granted, 100);
});

test('what found no room in time holds nothing: it did not start', async () => {
  const { lane } = await begin(16);
  const { sent } = await lane.look(T + 10 * MS, 100, 16, AHEAD_US);
  const grants = sent.filter((one) => one.kind === 'grant');
  assert.ok(grants.length > 0);
  for (const grant of grants) await lane.back(T + 500 * MS, grant, grant.range);
  assert.equal((await lane.look(T + 500 * MS, 100, 16, AHEAD_US)).granted, 100);
});

test('slots are never held, and a lane that was tells of none that are taken', async () => {
  const slots = await Lane.create(redis, 18, { type: 'concurrent', config: { limit: 2_000, lock_timeout: 60 }, now_us: T });
  await slots.queue(T, { batch: slots.newBatch(T), from: 0, to: 1_999, first_ms: T_MS });
  for (let i = 0; i < 3; i++) assert.equal((await slots.look(T, 500, 16, AHEAD_US)).granted, 500);
  // As a process of before left it, which learned from what came back, too.
  await redis.hset(slots.key(), 'lag', 400);
  await late(slots, T + 210 * MS, T_MS, 200, 50);
  assert.equal((await slots.look(T + 210 * MS, 500, 16, AHEAD_US)).granted, 500);
  const { lane } = await begin(20);
  await late(lane, T + 210 * MS, T_MS, 200, 50);
  assert.equal((await lane.look(T + 210 * MS, 100, 16, AHEAD_US)).granted, 0);
  assert.equal(await redis.hexists(lane.key(), 'held'), 0);
});

test('what has waited for too long meanwhile fails at its time', async () => {
  const config = { capacity: 1_000, drain_rate: 10_000, interval: 1 };
  const lane = await Lane.create(redis, 22, { type: 'leaky', config, queue_s: 1, now_us: T });
  await lane.queue(T, { batch: lane.newBatch(T), from: 0, to: 99, first_ms: T_MS });
  assert.equal((await lane.look(T + 750 * MS, 50, 16, AHEAD_US)).granted, 50);
  await late(lane, T + 985 * MS, T_MS + 750, 230, 50);
  const held = await lane.look(T + 985 * MS, 50, 16, AHEAD_US);
  assert.deepEqual([held.granted, held.next_us], [0, T + 1_000 * MS]);
  assert.equal((await lane.look(T + 1_000 * MS, 50, 16, AHEAD_US)).expired, 50);
});

test('what is too old meanwhile fails at its time', async () => {
  const { lane } = await begin(12);
  const valid_ms = T_MS + 225;
  await lane.queue(T + 1 * MS, { batch: lane.newBatch(T), from: 0, to: 4, first_ms: T_MS, valid_ms });
  await late(lane, T + 210 * MS, T_MS, 200, 50);
  const held = await lane.look(T + 210 * MS, 100, 16, AHEAD_US);
  assert.deepEqual([held.granted, held.next_us], [0, valid_ms * MS]);
  assert.equal((await lane.look(valid_ms * MS, 100, 16, AHEAD_US)).expired, 5);
});
