// Who is taken for alive, step by step: timers and the clock of Redis go as the test says, the rest is real.
import assert from 'node:assert/strict';
import { after, mock, test } from 'node:test';
import { createLog } from '../../src/base/log.ts';
import { Membership } from '../../src/delivery/membership.ts';
import { keys } from '../../src/store/keys.ts';
import { preload } from '../../src/store/script.ts';
import { memberBeat } from '../../src/store/scripts.gen.ts';
import { startRedis } from '../helpers/redis.ts';
import { ClockedRedis, T0 } from '../helpers/rig.ts';

const STEP_MS = 50;
const PARTITIONS = 16;
const { redis, path } = await startRedis();
const clients = [0, 1].map(() => new ClockedRedis({ path }));
await preload(redis, [memberBeat]);
after(() => {
  for (const client of clients) client.disconnect();
});

interface Pair {
  members: [Membership, Membership];
  /** How many partitions each has been told to own, in turn. */
  owned: [number[], number[]];
}

/** Two processes on an empty Redis, neither of which has begun; what `run` leaves running is stopped. */
async function withPair(run: (pair: Pair) => Promise<void>): Promise<void> {
  await redis.flushall();
  for (const client of clients) client.now_ms = T0;
  mock.timers.enable({ apis: ['setTimeout'] });
  const owned: Pair['owned'] = [[], []];
  const memberOf = (i: 0 | 1): Membership =>
    new Membership({
      ...{ client: clients[i] ?? assert.fail(), id: `process${i}`, partitions: { now: PARTITIONS }, log: createLog({ level: 'silent' }) },
      groups: [{ group: 'callbacks', threads: 1, onAssignment: ([mine = []]) => owned[i].push(mine.length) }],
    });
  const members: Pair['members'] = [memberOf(0), memberOf(1)];
  try {
    await run({ members, owned });
  } finally {
    for (const member of members) await member.stop();
    mock.timers.reset();
  }
}

/** Both, for a second. */
async function begin({ members }: Pair): Promise<void> {
  for (const member of members) await member.start();
  await pass(1_000);
}

/** Ends one and leaves what a process leaves that is killed: the mark of its last beat. */
async function kill(member: Membership): Promise<void> {
  const marks = await redis.hgetall(keys.members('callbacks'));
  await member.stop();
  await redis.hset(keys.members('callbacks'), marks);
}

/** Lets time pass; resolves when everybody has heard what Redis said meanwhile. */
async function pass(ms: number): Promise<void> {
  for (let passed_ms = 0; passed_ms < ms; passed_ms += STEP_MS) {
    for (const client of clients) client.now_ms += STEP_MS;
    mock.timers.tick(STEP_MS);
    // The answer to a beat comes before the one to this.
    for (const client of clients) await client.ping();
    await new Promise((resolve) => setImmediate(resolve));
  }
}

test('a process that comes at any moment is seen from then on, and sees the other one, without a break', async () => {
  for (let alone_ms = 0; alone_ms <= 2_000; alone_ms += STEP_MS) {
    await withPair(async ({ members: [first, second], owned }) => {
      await first.start();
      await pass(alone_ms);
      await second.start();
      await pass(6_000);
      assert.deepEqual(owned, [[PARTITIONS, PARTITIONS / 2], [PARTITIONS / 2]], `after ${alone_ms} ms`);
    });
  }
});

test('while Redis stands still nobody is missed; who dies in such a time is, after it', async () => {
  for (let still_ms = 500; still_ms <= 5_000; still_ms += 500) {
    await withPair(async (pair) => {
      await begin(pair);
      for (const client of clients) client.now_ms += still_ms;
      await pass(3_000);
      assert.deepEqual(pair.owned, [[PARTITIONS, PARTITIONS / 2], [PARTITIONS / 2]], `${still_ms} ms`);
      await kill(pair.members[1]);
      for (const client of clients) client.now_ms += still_ms;
      await pass(1_250);
      assert.equal(pair.owned[0].at(-1), PARTITIONS, `${still_ms} ms`);
    });
  }
});

test('who is left alone, and too slow to beat in time, misses the other in the end', async () => {
  await withPair(async (pair) => {
    await begin(pair);
    await kill(pair.members[1]);
    // Between two beats of his more time passes for Redis than for his timer.
    for (let beats = 0; beats < 10; beats++) {
      for (const client of clients) client.now_ms += 400;
      await pass(350);
    }
    assert.equal(pair.owned[0].at(-1), PARTITIONS);
  });
});

test('one that leaves is missed at the next beat, one that falls silent within a second', async () => {
  await withPair(async (pair) => {
    await begin(pair);
    await pair.members[1].stop();
    await pass(350);
    assert.equal(pair.owned[0].at(-1), PARTITIONS);
  });
  await withPair(async (pair) => {
    await begin(pair);
    await kill(pair.members[1]);
    await pass(500);
    assert.equal(pair.owned[0].at(-1), PARTITIONS / 2);
    await pass(500);
    assert.equal(pair.owned[0].at(-1), PARTITIONS);
  });
});

test('one that falls silent is missed as soon as it has been for 0.9 s, wherever the beats of the other one fall', async () => {
  for (let apart_ms = 0; apart_ms < 350; apart_ms += STEP_MS) {
    await withPair(async (pair) => {
      await pair.members[0].start();
      await pass(1_000 + apart_ms);
      await pair.members[1].start();
      await pass(3_000);
      const marks = await redis.hgetall(keys.members('callbacks'));
      const marked_ms = Number(marks['process1']?.split(' ')[1]);
      await kill(pair.members[1]);
      await pass(marked_ms + 900 - (clients[0]?.now_ms ?? assert.fail()));
      assert.equal(pair.owned[0].at(-1), PARTITIONS / 2, `${apart_ms} ms apart`);
      await pass(2 * STEP_MS);
      assert.equal(pair.owned[0].at(-1), PARTITIONS, `${apart_ms} ms apart`);
    });
  }
});
