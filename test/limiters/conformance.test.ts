// What is the same for every kind of limiter, form by form: a new kind passes by adding its row to kinds.ts.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { keys } from '../../src/store/keys.ts';
import { readUsage } from '../../src/store/limiter-usage.ts';
import { ACCOUNT, type GrantSent, Lane, type Look, type NewLane } from '../helpers/lane.ts';
import { startRedis } from '../helpers/redis.ts';
import { ROWS, type Row } from './kinds.ts';

const T = 1_800_000_000_000_000;
const T_MS = T / 1000;
const S = 1_000_000;
const MS = 1000;
const DAY_US = 86_400 * S;

const { redis } = await startRedis();
let partitions = 0;

type Options = Partial<Omit<NewLane, 'type' | 'config' | 'now_us'>>;

function laneOf(row: Row, options: Options = {}): Promise<Lane> {
  partitions += 2;
  return Lane.create(redis, partitions, { type: row.type, config: row.five, now_us: T, ...options });
}

function each(sentence: string, body: (row: Row, t: TestContext) => Promise<void>): void {
  for (const row of ROWS) test(`${row.name}: ${sentence}`, (t) => body(row, t));
}

/** `<batch's number> <index>` of what was let start, in order. */
function started(look: Look, batches: string[]): string[] {
  return look.sent.flatMap((sent) => {
    if (sent.kind !== 'grant') return [];
    const { batch, from, to } = sent.range;
    return Array.from({ length: to - from + 1 }, (_, i) => `${batches.indexOf(batch)} ${from + i}`);
  });
}

function grants(look: Look): GrantSent[] {
  return look.sent.filter((sent): sent is GrantSent => sent.kind === 'grant');
}

/** Time passes, or the running tasks end: five can start again. */
async function renew(row: Row, lane: Lane, look: Look, now_us: number): Promise<number> {
  if (row.timed) return now_us + 60 * S;
  const frees = grants(look).map(({ range }) => `free ${lane.core} ${range.batch} ${range.from} ${range.to}`);
  await lane.receive(now_us + MS, ...frees);
  return now_us + MS;
}

each('five start, the sixth waits, and the lane tells when to look again', async (row) => {
  const lane = await laneOf(row);
  const batch = lane.newBatch(T);
  await lane.queue(T, { batch, from: 0, to: 5, first_ms: T_MS });
  const look = await lane.look(T);
  assert.deepEqual(started(look, [batch]), ['0 0', '0 1', '0 2', '0 3', '0 4']);
  assert.equal(look.waiting, 1);
  assert.ok(look.next_us !== null && look.next_us > T && !look.more);
  assert.equal((await lane.look(look.next_us - 1)).looked, false);
});

each('who came first starts first, over batches, retries and what was given back', async (row) => {
  const lane = await laneOf(row);
  const batches = [lane.newBatch(T), lane.newBatch(T + MS)];
  const [a = '', b = ''] = batches;
  await lane.queue(T, { batch: a, from: 10, to: 12, first_ms: T_MS }, { batch: b, from: 0, to: 0, first_ms: T_MS });
  await lane.queue(T, { batch: a, from: 0, to: 9, first_ms: T_MS, attempts: 1 });
  const first = await lane.look(T);
  assert.deepEqual(started(first, batches), ['0 10', '0 11', '0 12', '1 0', '0 0']);
  const [early] = grants(first);
  assert.ok(early);
  // Two of the three that came first could not start where they were sent.
  await lane.back(T + MS, early, { ...early.range, from: 11 });
  const again = await lane.look(T + MS);
  assert.deepEqual(started(again, batches).slice(0, 2), ['0 11', '0 12']);
  assert.deepEqual(
    grants(again).map(({ last }) => last),
    [true],
  );
});

each('what is given back in time is used by the next, unit for unit', async (row) => {
  const lane = await laneOf(row);
  const batch = lane.newBatch(T);
  await lane.queue(T, { batch, from: 0, to: 9, first_ms: T_MS });
  const [sent] = grants(await lane.look(T));
  assert.ok(sent);
  await lane.unused(T, sent.granted_ms, { ...sent.range, from: 3 });
  assert.deepEqual(started(await lane.look(T), [batch]), ['0 5', '0 6']);
});

each('a closed limiter lets nothing start, and its time does not count for queue_timeout', async (row) => {
  const lane = await laneOf(row, { queue_s: 2 });
  const batch = lane.newBatch(T);
  await lane.pause(T, T_MS + 10_000);
  await lane.queue(T, { batch, from: 0, to: 5, first_ms: T_MS });
  assert.equal((await lane.look(T)).granted, 0);
  await lane.receive(T + 8 * S, `cool ${lane.core} 5000`);
  const closed = await lane.look(T + 8 * S);
  assert.equal(closed.next_us, T + 13 * S);
  const open = await lane.look(T + 13 * S);
  assert.deepEqual([open.granted, open.expired], [5, 0]);
  assert.equal(open.next_us, T + 15 * S);
  const late = await lane.look(T + 15 * S);
  assert.deepEqual(
    late.sent.map((sent) => (sent.kind === 'fail' ? `${sent.code} ${sent.range.from}` : 'grant')),
    ['queue_timeout 5'],
  );
});

each('a pause without an end holds until it is resumed', async (row) => {
  const lane = await laneOf(row);
  await lane.pause(T, null);
  await lane.queue(T, { batch: lane.newBatch(T), from: 0, to: 0, first_ms: T_MS });
  assert.equal((await lane.lookAll(T + 200 * S)).granted, 0);
  await lane.resume(T + 200 * S);
  assert.equal((await lane.look(T + 200 * S)).granted, 1);
});

each('too old fails with what made it so: validity_timeout by its first due time, expired by its own valid_until', async (row) => {
  const lane = await laneOf(row, { valid_s: 30 });
  const batch = lane.newBatch(T);
  await lane.queue(T, { batch, from: 0, to: 4, first_ms: T_MS });
  const { next_us } = await lane.look(T);
  assert.equal(next_us, null);
  await lane.pause(T, null);
  await lane.queue(
    T,
    { batch, from: 5, to: 5, first_ms: T_MS - 20_000 },
    { batch, from: 6, to: 6, first_ms: T_MS - 40_000, valid_ms: T_MS + 60_000 },
    { batch, from: 7, to: 7, first_ms: T_MS - 31_000 },
  );
  const codes = (look: Look): string[] => look.sent.map((sent) => (sent.kind === 'fail' ? `${sent.range.from} ${sent.code}` : 'grant'));
  const at_once = await lane.look(T);
  assert.deepEqual(codes(at_once), ['7 validity_timeout']);
  assert.equal(at_once.next_us, T + 10 * S);
  const later = await lane.look(T + 10 * S);
  assert.deepEqual(codes(later), ['5 validity_timeout']);
  assert.equal(later.next_us, T + 60 * S);
  assert.deepEqual(codes(await lane.look(T + 60 * S)), ['6 expired']);
});

each('reset gives used units back, but no slot of a task that runs', async (row) => {
  const lane = await laneOf(row);
  await lane.queue(T, { batch: lane.newBatch(T), from: 0, to: 9, first_ms: T_MS });
  await lane.look(T);
  await lane.reset(T + MS);
  assert.equal((await lane.look(T + MS)).granted, row.timed ? 5 : 0);
});

each('a PATCH counts for what waits, at once', async (row) => {
  const lane = await laneOf(row);
  await lane.queue(T, { batch: lane.newBatch(T), from: 0, to: 19, first_ms: T_MS });
  assert.equal((await lane.look(T)).granted, 5);
  const larger = row.five.limit === undefined ? { ...row.five, capacity: 12 } : { ...row.five, limit: 12 };
  await lane.patch(T + MS, larger);
  assert.equal((await lane.look(T + MS)).granted, 7);
});

each('a deleted limiter lets everything start, and its counts stay for 30 days, then nothing is left of it', async (row) => {
  const lane = await laneOf(row);
  const batch = lane.newBatch(T);
  await lane.queue(T, { batch, from: 0, to: 999, first_ms: T_MS }, { batch, from: 1000, to: 1299, first_ms: T_MS });
  assert.equal((await lane.look(T)).granted, 5);
  await lane.delete(T + MS);
  const look = await lane.lookAll(T + MS);
  assert.equal(look.granted, 1295);
  assert.equal(look.waiting, 0);
  assert.equal(look.next_us, T + MS + 30 * DAY_US);
  const usage = await readUsage(redis, ACCOUNT, lane.core, T + 29 * DAY_US);
  assert.equal(usage?.days[0]?.granted, 1300);
  assert.equal(usage?.available, null);
  // One that was on its way starts all the same, and those that still have slots give them back to nobody.
  await lane.queue(T + 29 * DAY_US, { batch, from: 2000, to: 2000, first_ms: T_MS + 29 * 86_400_000 });
  assert.equal((await lane.look(T + 29 * DAY_US)).granted, 1);
  await lane.look(T + MS + 30 * DAY_US);
  await lane.receive(
    T + 31 * DAY_US,
    `free ${lane.core} ${batch} 0 0`,
    `unused ${lane.core} ${T_MS} 1 1 ${batch} 0 0`,
    `drop ${lane.core} ${batch}`,
  );
  assert.deepEqual(await redis.keys(`${lane.key()}*`), []);
  assert.equal(await redis.zscore(`${keys.partition(lane.partition).slice(0, -1)}lanes`, lane.core), null);
});

each('a batch that is dropped wastes no unit and holds nobody up', async (row) => {
  const lane = await laneOf(row);
  const [dead, live] = [lane.newBatch(T), lane.newBatch(T + MS)];
  const ranges = Array.from({ length: 1000 }, (_, k) => ({ batch: dead, from: k * 1000, to: k * 1000 + 999, first_ms: T_MS }));
  for (let k = 0; k < 1000; k += 500) await lane.queue(T, ...ranges.slice(k, k + 500));
  const first = await lane.look(T);
  await lane.queue(T, { batch: live, from: 0, to: 0, first_ms: T_MS });
  await lane.receive(T + MS, `drop ${lane.core} ${dead}`);
  assert.equal((await readUsage(redis, ACCOUNT, lane.core, T + MS))?.queued, 1);
  const at_us = await renew(row, lane, first, T + MS);
  let calls = 1;
  let look = await lane.look(at_us);
  for (; look.granted === 0; calls++) look = await lane.look(at_us);
  assert.deepEqual(started(look, [dead, live]), ['1 0']);
  assert.ok(calls <= 3, `${calls} calls for 1,000,000 tasks`);
  // The batch may come again in a new round.
  await lane.queue(at_us, { batch: dead, from: 7, to: 7, first_ms: T_MS, attempts: 3 });
  assert.deepEqual(started(await lane.look(at_us), [dead, live]), ['0 7']);
});

each('a range that comes twice waits once; a message that comes twice is taken once', async (row) => {
  const lane = await laneOf(row);
  const range = { batch: lane.newBatch(T), from: 0, to: 2, first_ms: T_MS };
  await lane.pause(T, null);
  await lane.queue(T, range, range);
  await lane.queue(T, range);
  await lane.resume(T);
  const look = await lane.look(T);
  assert.deepEqual([look.granted, look.waiting], [3, 0]);
});

each('a slot, or a unit, is given back by the grant that took it and by no other', async (row) => {
  const lane = await laneOf(row);
  const range = { batch: lane.newBatch(T), from: 0, to: 4, first_ms: T_MS };
  await lane.queue(T, range);
  await lane.look(T);
  if (row.timed) return;
  // The source has forgotten the grant (a failover) and hands the range over again, though all five run.
  await lane.queue(T + S, range, { ...range, from: 5, to: 5 });
  assert.equal((await lane.look(T + S)).granted, 0);
  await lane.receive(T + S, `free ${lane.core} ${range.batch} 0 0`);
  const [again] = grants(await lane.look(T + S));
  assert.ok(again);
  await lane.unused(T + S, again.granted_ms, again.range);
  const [then] = grants(await lane.look(T + S));
  assert.deepEqual([then?.range.from, then?.range.to], [1, 1]);
  await lane.unused(T + S, then?.granted_ms ?? 0, { ...range, from: 1, to: 1 });
  assert.equal((await readUsage(redis, ACCOUNT, lane.core, T + S))?.running, 4);
});

each('usage counts what started, what had to wait and what expired, by the minute and by the day', async (row) => {
  const lane = await laneOf(row, { queue_s: 1 });
  const batch = lane.newBatch(T);
  await lane.queue(T, { batch, from: 0, to: 8, first_ms: T_MS });
  const first = await lane.look(T);
  const usage = await readUsage(redis, ACCOUNT, lane.core, T + S / 2);
  assert.ok(usage);
  assert.deepEqual([usage.queued, usage.granted_last_minute, usage.throttled_last_minute, usage.available], [4, 5, 4, 0]);
  assert.equal(usage.running, row.timed ? 0 : 5);
  assert.ok(usage.next_available_ms !== null && usage.next_available_ms > T_MS);
  assert.deepEqual([usage.history.length, usage.days.length], [60, 30]);
  assert.deepEqual(usage.history.at(-1), { at_ms: T_MS - (T_MS % 60_000), granted: 5, queued_max: 9 });
  await lane.look(T + S);
  const at_us = (await renew(row, lane, first, T + S)) + 120 * S;
  const later = await readUsage(redis, ACCOUNT, lane.core, at_us);
  assert.ok(later);
  assert.deepEqual([later.queued, later.granted_last_minute, later.available, later.next_available_ms], [0, 0, 5, null]);
  assert.deepEqual(later.days.at(-1), { date: '2027-01-15', granted: 5, throttled: 4, expired: 4 });
  assert.equal(await readUsage(redis, 'somebody00', lane.core, at_us), null);
});

each('who comes behind those that wait is counted as held back at once, and once', async (row) => {
  const lane = await laneOf(row, { queue_s: 1 });
  const batch = lane.newBatch(T);
  await lane.queue(T, { batch, from: 0, to: 5, first_ms: T_MS });
  await lane.look(T);
  await lane.queue(T + MS, { batch, from: 6, to: 8, first_ms: T_MS });
  const throttled = async (at_us: number): Promise<number | undefined> =>
    (await readUsage(redis, ACCOUNT, lane.core, at_us))?.throttled_last_minute;
  assert.equal(await throttled(T + MS), 4);
  await lane.look(T + S + MS);
  assert.equal(await throttled(T + S + MS), 4);
  // Nobody waits any more: whether the next one has to is seen by a look.
  await lane.queue(T + S + 2 * MS, { batch, from: 9, to: 9, first_ms: T_MS });
  assert.equal(await throttled(T + S + 2 * MS), 4);
});

each('a cooldown of the limiter is told with every grant', async (row) => {
  const lane = await laneOf(row, { cooldown: true });
  await lane.queue(T, { batch: lane.newBatch(T), from: 0, to: 0, first_ms: T_MS });
  assert.match(grants(await lane.look(T))[0]?.letter ?? '', /^\w!$/);
});

each('what waited for a limiter that was deleted is not told to close it', async (row) => {
  const lane = await laneOf(row, { cooldown: true });
  const batch = lane.newBatch(T);
  await lane.queue(T, { batch, from: 0, to: 9, first_ms: T_MS });
  await lane.look(T);
  await lane.delete(T);
  const letters = grants(await lane.lookAll(T)).map(({ letter }) => letter);
  assert.ok(letters.length > 0);
  for (const letter of letters) assert.match(letter, /^\w$/);
});

test('a lane whose record is missing limits nothing and leaves nothing behind', async () => {
  partitions += 2;
  const lane = Lane.missing(redis, partitions, T);
  const batch = lane.newBatch(T);
  await lane.queue(T, { batch, from: 0, to: 999, first_ms: T_MS });
  const look = await lane.lookAll(T);
  assert.deepEqual([look.granted, look.next_us], [1000, null]);
  assert.deepEqual(await redis.keys(`${lane.key()}*`), []);
});

test('a lane with a million waiting tasks is as large as its ranges, and is looked at only when something can start', async () => {
  partitions += 2;
  const lane = await Lane.create(redis, partitions, {
    type: 'window',
    config: { limit: 10, interval: 1 },
    now_us: T,
    queue_s: 604_800,
    valid_s: 604_800,
  });
  const batch = lane.newBatch(T);
  for (let k = 0; k < 1000; k += 250) {
    const ranges = Array.from({ length: 250 }, (_, i) => ({ batch, from: (k + i) * 1000, to: (k + i) * 1000 + 999, first_ms: T_MS }));
    await lane.queue(T, ...ranges);
  }
  let looks = 0;
  let granted = 0;
  for (let now_us = T; now_us < T + 10 * S; ) {
    const look = await lane.look(now_us);
    looks += 1;
    granted += look.granted;
    assert.ok(look.next_us !== null);
    now_us = look.next_us;
  }
  assert.equal(granted, 100);
  assert.equal(looks, 10);
  const sizes = await Promise.all([':q', ':e', ':first', ':n'].map((part) => redis.memory('USAGE', lane.key(part), 'SAMPLES', 0)));
  assert.ok(sizes.reduce((sum: number, one) => sum + Number(one), 0) < 600_000);
});

test('a clock that steps back wakes lanes whose times lie in what is the future again', async () => {
  partitions += 2;
  const lane = await Lane.create(redis, partitions, { type: 'leaky', config: { capacity: 1, drain_rate: 1, interval: 1 }, now_us: T });
  await lane.queue(T, { batch: lane.newBatch(T), from: 0, to: 2, first_ms: T_MS });
  assert.equal((await lane.look(T)).granted, 1);
  const hour_us = 3600 * S;
  const look = await lane.look(T - hour_us);
  assert.deepEqual([look.looked, look.granted], [true, 0]);
  assert.equal(look.next_us, T - hour_us + S);
  assert.equal((await lane.look(T - hour_us + S)).granted, 1);
});

test('points: a head that does not fit is not overtaken; the difference is charged or given back', async () => {
  partitions += 2;
  const lane = await Lane.create(redis, partitions, { type: 'points', config: { capacity: 10, refill_rate: 1, interval: 1 }, now_us: T });
  const batch = lane.newBatch(T);
  await lane.queue(
    T,
    { batch, from: 0, to: 0, cost: 6, first_ms: T_MS },
    { batch, from: 1, to: 1, cost: 7, first_ms: T_MS },
    { batch, from: 2, to: 2, cost: 1, first_ms: T_MS },
  );
  const look = await lane.look(T);
  assert.deepEqual([look.granted, look.next_us], [1, T + 3 * S]);
  await lane.receive(T, `points ${lane.core} -3`);
  assert.equal((await lane.look(T)).granted, 1);
  await lane.receive(T, `points ${lane.core} 4`);
  assert.equal((await lane.look(T)).granted, 0);
  assert.equal((await lane.look(T + 5 * S)).granted, 1);
});

test('concurrent: a slot whose holder says nothing is free again after its lease, and counted as reclaimed', async () => {
  partitions += 2;
  const lane = await Lane.create(redis, partitions, { type: 'concurrent', config: { limit: 1, lock_timeout: 5 }, now_us: T });
  await lane.queue(T, { batch: lane.newBatch(T), from: 0, to: 1, first_ms: T_MS });
  const { next_us } = await lane.look(T);
  // The task's own timeout (30 s) and a minute, since that is more than lock_timeout.
  assert.ok(next_us !== null && next_us >= T + 90 * S && next_us < T + 90 * S + 2 * MS);
  const look = await lane.look(next_us);
  assert.deepEqual([look.granted, look.reclaimed], [1, 1]);
});
