// How a window lets start what it opens with: within half a second, or nearly evenly where more waits than it holds at all.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { mostWithin } from '../../bench/lib/stats.ts';
import { Lane } from '../helpers/lane.ts';
import { startRedis } from '../helpers/redis.ts';

const T = 1_800_000_000_000_000;
const S = 1_000_000;
const LIMIT = 1_000;
const LOOK_EACH_US = 10_000;
const AHEAD_US = 60_000;

const { redis, stop } = await startRedis();
after(stop);

/** Times of all starts, from 0 on, in ms: a lane that is looked at every ten milliseconds for some seconds. */
async function starts(partition: number, tasks: number, seconds: number): Promise<number[]> {
  const lane = await Lane.create(redis, partition, { type: 'window', config: { limit: LIMIT, interval: 1 }, now_us: T });
  await lane.queue(T, { batch: lane.newBatch(T), from: 0, to: tasks - 1, first_ms: T / 1_000 });
  const at_ms: number[] = [];
  for (let now = T; now < T + seconds * S; now += LOOK_EACH_US) {
    const { sent } = await lane.look(now, 500, 16, AHEAD_US);
    for (const grant of sent) {
      if (grant.kind !== 'grant') continue;
      for (let i = grant.range.from; i <= grant.range.to; i++) at_ms.push(grant.granted_ms - T / 1_000);
    }
  }
  return at_ms;
}

test('what a window can take at all starts within half a second', async () => {
  const at_ms = await starts(0, LIMIT, 1);
  assert.equal(at_ms.length, LIMIT);
  assert.ok((at_ms.at(-1) as number) <= 500, `the last at ${at_ms.at(-1)} ms`);
});

test('where more waits, it comes nearly evenly, and nothing of the limit is lost', async () => {
  const at_ms = await starts(2, 10 * LIMIT, 5);
  assert.equal(mostWithin(at_ms, 1_000), LIMIT);
  assert.ok(at_ms.length >= 4.99 * LIMIT, `${at_ms.length} in five seconds`);
  assert.ok(mostWithin(at_ms, 100) <= 150, `${mostWithin(at_ms, 100)} in a tenth of a second`);
});

test('who waits meanwhile fails when its time is over, not with the next few that may start', async () => {
  const lane = await Lane.create(redis, 4, { type: 'window', config: { limit: LIMIT, interval: 1 }, now_us: T });
  const batch = lane.newBatch(T);
  await lane.queue(T, { batch, from: 0, to: 4_999, first_ms: T / 1_000 });
  await lane.queue(T, { batch, from: 5_000, to: 5_000, first_ms: T / 1_000, valid_ms: T / 1_000 + 2 });
  const first = await lane.look(T, 500, 16, AHEAD_US);
  assert.equal(first.next_us, T + 2_000);
  const { sent } = await lane.look(T + 2_000, 500, 16, AHEAD_US);
  assert.deepEqual(
    sent.filter(({ kind }) => kind === 'fail').map(({ range }) => range.from),
    [5_000],
  );
});
