// What a lane does when it hears that tasks started a while after they were granted: their units count as of then.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { LimiterType } from '../../src/schema/limiters/kinds.ts';
import type { LimiterConfig } from '../../src/store/limiter-machines.ts';
import { Lane } from '../helpers/lane.ts';
import { startRedis } from '../helpers/redis.ts';
import { Chance } from './chance.ts';
import { ROWS, type Start } from './kinds.ts';

const T = 1_800_000_000_000_000;
const T_MS = T / 1000;
const S = 1_000_000;

const { redis } = await startRedis();

for (const [i, row] of ROWS.entries()) {
  /** A lane that has let five of ten start, at T. */
  const begin = async (more: number): Promise<Lane> => {
    const lane = await Lane.create(redis, 4 * i + more, { type: row.type, config: row.five, now_us: T });
    await lane.queue(T, { batch: lane.newBatch(T), from: 0, to: 9, first_ms: T_MS });
    assert.equal((await lane.look(T)).granted, 5);
    return lane;
  };

  test(`${row.name}: what started late is used from then on${row.timed ? '' : ', which says nothing of slots'}`, async () => {
    const lane = await begin(0);
    await lane.receive(T + 90 * S, `late ${lane.core} ${T_MS} 3 90000`, `late ${lane.core} ${T_MS} 2`);
    assert.equal((await lane.look(T + 90 * S)).granted, 0);
    if (row.timed) assert.equal((await lane.lookAll(T + 150 * S)).granted, 5);
  });

  if (row.timed) {
    test(`${row.name}: what a reset has forgotten does not come back because it started late`, async () => {
      const lane = await begin(2);
      await lane.reset(T + S);
      await lane.receive(T + 2 * S, `late ${lane.core} ${T_MS} 5 2000`);
      assert.equal((await lane.look(T + 2 * S)).granted, 5);
    });
    test(`${row.name}: with all that started late at its true time, no look lets more start than the definition allows`, async () => {
      for (let seed = 1; seed <= 60; seed++) await lateLife(row, 1_000 + seed * 2, new Chance(seed));
    });
  }
}

for (const [i, row] of ROWS.entries()) {
  if (row.type !== 'window' && row.name !== 'bucket, fixed windows') continue;
  test(`${row.name}: what was let start before a PATCH of the limit comes back, and counts from when it started`, async () => {
    const lane = await Lane.create(redis, 200 + 2 * i, { type: row.type, config: row.five, now_us: T });
    const batch = lane.newBatch(T);
    await lane.queue(T, { batch, from: 0, to: 19, first_ms: T_MS });
    assert.equal((await lane.look(T)).granted, 5);
    await lane.patch(T + 1_000, { ...row.five, limit: 6 });
    assert.equal((await lane.look(T + 1_000)).granted, 1);
    await lane.unused(T + 2_000, T_MS, { batch, from: 0, to: 1, first_ms: T_MS });
    assert.equal((await lane.look(T + 2_000)).granted, 2);
  });
}

test('points: what started late after answers told what it used is not charged again', async () => {
  const lane = await Lane.create(redis, 100, { type: 'points', config: { capacity: 100, refill_rate: 1, interval: 100 }, now_us: T });
  await lane.queue(T, { batch: lane.newBatch(T), from: 0, to: 29, first_ms: T_MS, cost: 10 });
  assert.equal((await lane.look(T)).granted, 10);
  await lane.receive(T + 5_000, `points ${lane.core} -8`, `points ${lane.core} -7`);
  // 80 are in it, and less than one that the late start has not let drain.
  await lane.receive(T + 10_000, `late ${lane.core} ${T_MS} 100 5`, `points ${lane.core} -5`);
  assert.equal((await lane.look(T + 10_000)).granted, 2);
  assert.equal((await lane.look(T + 10_000)).granted, 0);
});

test('points: what started late and is not known any more counts for what drained in between', async () => {
  const lane = await Lane.create(redis, 104, { type: 'points', config: { capacity: 100, refill_rate: 10, interval: 1 }, now_us: T });
  await lane.queue(T, { batch: lane.newBatch(T), from: 0, to: 29, first_ms: T_MS, cost: 10 });
  assert.equal((await lane.look(T)).granted, 10);
  await lane.receive(T + S, `points ${lane.core} -40`);
  // 40 are left in it, and 20 more where all that drained since was of those that started late.
  await lane.receive(T + 2 * S, `late ${lane.core} ${T_MS} 20 2000`);
  assert.equal((await lane.look(T + 2 * S)).granted, 4);
});

/** Looks at random times; some of what they let start does so up to 150 ms later, and the lane is told; of points, answers tell that more was used. */
async function lateLife(row: (typeof ROWS)[number], partition: number, chance: Chance): Promise<void> {
  const config: LimiterConfig = { ...row.config(chance), interval: 1 };
  const definition = row.define(config);
  const lane = await Lane.create(redis, partition, { type: row.type, config, now_us: T });
  await lane.queue(T, { batch: lane.newBatch(T), from: 0, to: 9_999, first_ms: T_MS });
  let starts: Start[] = [];
  for (let step = 0, at = T; step < 25; step++) {
    at += chance.int(1, 200) * 1000;
    const before = starts;
    const { granted } = await lane.look(at, 500);
    starts = [...starts, ...Array.from({ length: granted }, () => ({ at, cost: 1, lease_us: 0 }))];
    const allowed = config.limit === undefined ? granted <= definition.free(before, at) : definition.allows(starts, at);
    assert.ok(allowed || granted === 0, `${granted} start in step ${step} of ${JSON.stringify(config)}`);
    if (row.type === 'points' && chance.one(3)) {
      const difference = chance.int(1, 20);
      definition.charge?.(difference, at);
      await lane.receive(at, `points ${lane.core} ${difference}`);
    }
    const late = granted === 0 ? 0 : chance.int(0, granted);
    if (late === 0) continue;
    // What is taken from a fixed window starts in it.
    const late_ms = Math.min(chance.int(1, 150), 999 - ((at / 1000) % 1000));
    const moved = starts.length - late;
    starts = starts.map((start, i) => (i < moved ? start : { ...start, at: at + late_ms * 1000 }));
    await lane.receive(at + (late_ms + 5) * 1000, `late ${lane.core} ${at / 1000} ${late} ${late_ms}`);
    at += (late_ms + 6) * 1000;
  }
}

test('what is granted need not wait for late starts while more is left than they can make of it', async () => {
  const spares = async (partition: number, type: LimiterType, config: LimiterConfig): Promise<number> => {
    const lane = await Lane.create(redis, partition, { type, config, now_us: T });
    await lane.queue(T, { batch: lane.newBatch(T), from: 0, to: 99, first_ms: T_MS });
    let spare = 0;
    for (let task = 0; task < 100; task++) {
      const { sent } = await lane.look(T, 1);
      if (sent.some((one) => one.kind === 'grant' && one.spare)) spare++;
    }
    return spare;
  };
  // Of a level of 100 what drains in half a second, the life of a grant, is to be left.
  assert.equal(await spares(120, 'leaky', { capacity: 100, drain_rate: 40, interval: 1 }), 80);
  assert.equal(await spares(122, 'points', { capacity: 100, refill_rate: 1, interval: 1 }), 99);
  assert.equal(await spares(124, 'leaky', { capacity: 100, drain_rate: 1_000, interval: 1 }), 0);
  // It is all the same when in a fixed window something starts; a sliding one holds nobody up.
  assert.equal(await spares(126, 'bucket', { limit: 100, interval: 60 }), 100);
  assert.equal(await spares(128, 'window', { limit: 100, interval: 60 }), 0);
});
