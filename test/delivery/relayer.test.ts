// A process's relayer: what was written before a call is carried over when it resolves, failures are tried again.
import assert from 'node:assert/strict';
import { after, beforeEach, test } from 'node:test';
import { monotonicMs } from '../../src/base/clock.ts';
import { createLog } from '../../src/base/log.ts';
import { Relayer } from '../../src/delivery/relayer.ts';
import { keys } from '../../src/store/keys.ts';
import { append, laneOf, rangeOf, readHeld } from '../helpers/outbox.ts';
import { until } from '../helpers/redis.ts';
import { startRig } from '../helpers/rig.ts';

const rig = await startRig();
const { redis } = rig;
after(() => redis.disconnect());
beforeEach(() => rig.reset());

const seen = { moved: 0, failed: 0, resent: 0 };
const relayers: Relayer[] = [];
after(() => Promise.all(relayers.map((relayer) => relayer.stop(1000))));

function makeRelayer(): Relayer {
  Object.assign(seen, { moved: 0, failed: 0, resent: 0 });
  const relayer = new Relayer({
    client: redis,
    log: createLog({ level: 'silent' }),
    backoff: { min_ms: 5, max_ms: 20 },
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
  assert.deepEqual((await readHeld(redis, 0)).outbox, {});
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
