// A process's relayer: what was written before a call is carried over when it resolves, failures are tried again.
import assert from 'node:assert/strict';
import { after, beforeEach, test } from 'node:test';
import type { Backoff } from '../../src/base/backoff.ts';
import { monotonicMs } from '../../src/base/clock.ts';
import { createLog } from '../../src/base/log.ts';
import { Relayer } from '../../src/delivery/relayer.ts';
import { NotReplicated } from '../../src/store/errors.ts';
import { keys } from '../../src/store/keys.ts';
import { MESSAGES_MAX, relay } from '../../src/store/outbox.ts';
import { append, laneOf, rangeOf, readHeld } from '../helpers/outbox.ts';
import { until } from '../helpers/redis.ts';
import { startRig } from '../helpers/rig.ts';

const rig = await startRig();
const { redis } = rig;
after(() => redis.disconnect());

const seen = { moved: 0, failed: 0, resent: 0 };
const relayers: Relayer[] = [];
const stopAll = (): Promise<unknown> => Promise.all(relayers.splice(0).map((relayer) => relayer.stop(1000)));
// One that waits to try again would do so in the next test.
beforeEach(async () => {
  await stopAll();
  await rig.reset();
});
after(stopAll);

function makeRelayer(backoff: Backoff = { min_ms: 5, max_ms: 20 }, confirm?: () => Promise<void>): Relayer {
  Object.assign(seen, { moved: 0, failed: 0, resent: 0 });
  const relayer = new Relayer({
    client: redis,
    log: createLog({ level: 'silent' }),
    backoff,
    ...(confirm === undefined ? {} : { confirm }),
    meter: {
      moved: (messages) => {
        seen.moved += messages;
      },
      failed: () => {
        seen.failed += 1;
      },
      swept: ({ resent }) => {
        seen.resent += resent;
      },
    },
  });
  relayers.push(relayer);
  return relayer;
}

/** Scripts that were called. */
async function calls(): Promise<number> {
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(await redis.info('commandstats'))?.[1] ?? 0);
}

async function laneLength(partition: number): Promise<number> {
  return (await readHeld(redis, partition)).lanes[laneOf(partition)]?.length ?? 0;
}

test('a hundred callers at once each find their own message handed over', async () => {
  const relayer = makeRelayer();
  const callers = Array.from({ length: 100 }, async (_, i) => {
    await append(redis, 0, [['hand', laneOf(2), `ref${i}`]]);
    await relayer.relay(0);
    assert.notEqual(await redis.zscore(keys.lane(2, laneOf(2)), rangeOf(0, `ref${i}`)), null);
  });
  await Promise.all(callers);
  assert.equal(seen.moved, 100);
});

test('a destination that fails holds up no other, and gets its messages once it works', async () => {
  const relayer = makeRelayer();
  // A key of the wrong type stands for a partition that cannot be written.
  await redis.set(keys.marks(2), 'x');
  await append(redis, 0, [
    ['hand', laneOf(2), 'a'],
    ['hand', laneOf(3), 'b'],
  ]);
  await relayer.relay(0);
  assert.deepEqual([seen.moved, seen.failed], [1, 1]);
  await until(() => seen.failed >= 3, 5_000, 'it to be tried again');
  await redis.del(keys.marks(2));
  await until(async () => (await laneLength(2)) === 1, 5_000, 'the message to arrive');
  // It is acknowledged a step later.
  await until(async () => Object.keys((await readHeld(redis, 0)).outbox).length === 0, 5_000, 'the outbox to be empty');
});

test('whom somebody else has served since it failed makes no waiting for others shorter', async () => {
  const relayer = makeRelayer({ min_ms: 100, max_ms: 100 });
  for (const destination of [2, 3]) await redis.set(keys.marks(destination), 'x');
  await append(redis, 0, [['hand', laneOf(2), 'a']]);
  await relayer.relay(0);
  await redis.del(keys.marks(2));
  await relay(redis, 0);
  assert.deepEqual((await readHeld(redis, 0)).outbox, {});
  await append(redis, 0, [['hand', laneOf(3), 'b']]);
  const before = await calls();
  seen.failed = 0;
  await relayer.relay(0);
  await until(() => seen.failed > 5, 10_000, 'several tries');
  // A try is a look at the source and a call of the destination, and where a timer comes early one more look.
  const called = (await calls()) - before;
  assert.ok(called <= 3 * (seen.failed + 1), `${called} calls for ${seen.failed} tries`);
});

test('what has arrived where no replica follows is no trouble of its destination, and comes again until one does', async () => {
  let follows = false;
  const relayer = makeRelayer(undefined, async () => {
    if (!follows) throw new NotReplicated('late');
  });
  await append(redis, 0, [['hand', laneOf(2), 'a']]);
  await relayer.relay(0);
  assert.deepEqual([await laneLength(2), seen.moved, seen.failed], [1, 0, 0]);
  // What comes next is not kept waiting.
  await append(redis, 0, [['hand', laneOf(2), 'b']]);
  await relayer.relay(0);
  assert.deepEqual([await laneLength(2), seen.moved, seen.failed], [2, 0, 0]);
  follows = true;
  await until(() => seen.moved === 2, 5_000, 'both to be acknowledged');
  assert.deepEqual((await readHeld(redis, 0)).outbox, {});
  assert.equal(await laneLength(2), 2);
});

test('what has arrived where no replica follows stands in no way of what is behind it', async () => {
  const relayer = makeRelayer(undefined, async () => {
    throw new NotReplicated('late');
  });
  const many = MESSAGES_MAX + 10;
  await append(
    redis,
    0,
    Array.from({ length: many }, (_, i) => ['hand', laneOf(2), `ref${i}`] as const),
  );
  await relayer.relay(0);
  // What is behind goes on a little later, and may while the lane is asked for.
  assert.deepEqual([seen.moved, seen.failed], [MESSAGES_MAX, 0]);
  assert.equal(await laneLength(2), many);
});

test('what was carried is acknowledged at once where it has become much, and later where it is little', async (t) => {
  const relayer = makeRelayer();
  // The time for it never comes.
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const carry = async (count: number): Promise<void> => {
    await append(
      redis,
      0,
      Array.from({ length: count }, (_, i) => ['hand', laneOf(2), `ref${count}x${i}`] as const),
    );
    const messages = await redis.zrange(keys.outbox(0, 2), '0', '-1');
    await relayer.carry(0, [{ destination: 2, messages, read_ms: monotonicMs(), source_ms: Date.now(), unsure_ms: 0 }]);
  };
  await carry(3);
  assert.equal(await laneLength(2), 3);
  assert.equal(await redis.zcard(keys.outbox(0, 2)), 3);
  await carry(22);
  assert.equal(await laneLength(2), 25);
  const until_ms = monotonicMs() + 5_000;
  while ((await redis.zcard(keys.outbox(0, 2))) > 0) assert.ok(monotonicMs() < until_ms, 'nothing was acknowledged');
  t.mock.timers.reset();
  await relayer.stop(1_000);
  assert.equal(seen.moved, 25);
});

test('a sweep sends again what a lane has lost', async () => {
  const relayer = makeRelayer();
  await append(redis, 0, [['hand', laneOf(2), 'a']]);
  await relayer.relay(0);
  const line = keys.lane(2, laneOf(2));
  await redis.del(line, line.replace(/q$/, 'e'));
  rig.pass(30_000);
  await Promise.all([relayer.sweep(0), relayer.sweep(0)]);
  assert.equal(seen.resent, 1);
  assert.equal(await laneLength(2), 1);
});

test('after stop nothing begins', async () => {
  const relayer = makeRelayer();
  await append(redis, 0, [['hand', laneOf(2), 'a']]);
  const under_way = relayer.relay(0);
  await relayer.stop(1000);
  await under_way;
  await append(redis, 0, [['hand', laneOf(2), 'b']]);
  await relayer.relay(0);
  assert.equal(await laneLength(2), 1);
});
