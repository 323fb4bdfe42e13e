// An express is handed the next single task: src/delivery/calls.ts, src/delivery/pump.ts.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Redis } from 'ioredis';
import { monotonicMs } from '../../src/base/clock.ts';
import { Pump } from '../../src/delivery/pump.ts';
import { keys } from '../../src/store/keys.ts';
import type { Claimed } from '../../src/store/partition.ts';
import { until } from '../helpers/redis.ts';
import { SETTINGS } from '../helpers/rig.ts';
import {
  claims,
  deaf,
  ended,
  expressOf,
  FENCE_MS,
  isFree,
  listen,
  offer,
  ownerOf,
  Patient,
  scene,
  single,
  started,
} from './express-scene.ts';
import { create, Host, held, path, redis } from './pump-scene.ts';

describe('an express', () => {
  test('is handed task after task, and claims none of them', async (t) => {
    const { pump, host } = await expressOf(t);
    const from = held.called.length;
    for (let k = 1; k <= 5; k++) {
      await until(isFree, 5_000, 'an offer');
      await single();
      await started(host, k, `task ${k}`);
      ended(pump, host.started.at(-1) ?? assert.fail());
    }
    await pump.drained();
    assert.equal(claims(from), 0);
    assert.equal(new Set(host.started.map(({ flight, index }) => `${flight.core} ${index}`)).size, 5);
    assert.equal(await pump.audit(), 0);
    assert.equal(await redis.zcard(keys.active(0, 'free')), 0);
  });

  test('offers again while a task of it runs', async (t) => {
    const { host } = await expressOf(t);
    await single();
    await started(host, 1, 'the first task');
    await until(isFree, 5_000, 'the next offer');
    await single();
    await started(host, 2, 'the next task');
  });

  test('offers nothing while it has no place, and goes on once it has one', async (t) => {
    class Full extends Host {
      override has_places = false;
    }
    const host = new Full();
    const { pump } = scene(t, 'free', { host });
    pump.hear(true);
    pump.express();
    await until(() => host.ticks > 0 && pump.empty, 5_000, 'the first look');
    assert.equal(pump.hungry(), false);
    assert.equal(await isFree(), false);
    host.has_places = true;
    assert.equal(pump.hungry(), true);
    pump.wake();
    await until(isFree, 5_000, 'the offer');
  });

  test('offers nothing before it hears what is handed over, nor while it does not', async (t) => {
    const { pump, host } = scene(t);
    pump.express();
    await until(() => host.ticks > 0 && pump.empty, 5_000, 'the first look');
    assert.deepEqual([pump.hungry(), await isFree()], [false, false]);
    pump.hear(true);
    await until(isFree, 5_000, 'the offer');
    pump.hear(false);
    await until(async () => !(await isFree()), 5_000, 'the offer to be gone');
    assert.equal(pump.hungry(), false);
  });

  test('is not taken for dead while it calls, however long nothing came before', async (t) => {
    const silence_ms = 3_000;
    const quick = { ...SETTINGS, silence_ms, gap_ms: silence_ms, sweep_ms: 60_000, fence_ms: FENCE_MS };
    const [host, others] = [new Host(), new Host()];
    const pump = new Pump(0, held, { ...quick, holder: 'free' }, host);
    const owner = new Pump(0, redis, { ...quick, holder: 'owner' }, others);
    t.after(() => pump.close());
    t.after(() => owner.close());
    await listen(t, keys.bell(0), (message) => owner.bell(message));
    await listen(t, keys.handed(0), (message) => pump.handed(message));
    owner.own();
    pump.hear(true);
    pump.express();
    await until(isFree, 5_000, 'the offer');
    await single();
    await started(host, 1, 'the first task');
    ended(pump, host.started[0] ?? assert.fail());
    const from_ms = performance.now();
    await until(() => performance.now() - from_ms > silence_ms - 500, 5_000, 'some time to pass');
    await single();
    await started(host, 2, 'the second task');
    await until(() => performance.now() - from_ms > 2.5 * silence_ms, 10_000, 'more time to pass');
    assert.equal(others.started.length, 0);
    ended(pump, host.started[1] ?? assert.fail());
    await pump.drained();
  });

  test('rests while its first look fails, and goes on when that is answered', async (t) => {
    class Counting extends Patient {
      asked = 0;
      override get offer_gap_ms(): number {
        this.asked += 1;
        return 10;
      }
    }
    const host = new Counting();
    // Of the wrong type: every script that looks at it fails.
    await redis.set(keys.holders(0), 'x');
    const { pump } = scene(t, 'free', { host });
    pump.hear(true);
    pump.express();
    await until(() => host.failures >= 4, 10_000, 'looks to fail');
    assert.ok(host.asked < 200, `asked itself ${host.asked} times`);
    assert.equal(await isFree(), false);
    await redis.del(keys.holders(0));
    await until(isFree, 5_000, 'the offer');
  });

  test('is drained at once where it is let go of while it rests after a failure', async (t) => {
    const host = new Patient();
    const { pump } = await deaf(t, { host });
    await redis.set(keys.holders(0), 'x');
    pump.glance();
    await until(() => host.failures >= 3, 5_000, 'turns to fail');
    await redis.del(keys.holders(0));
    pump.disown(true);
    await pump.drained();
    assert.equal(await isFree(), false);
  });

  test('tells who owns the partition when a task is to be tried again, and of one that it hands back', async (t) => {
    const owner = await ownerOf(t);
    const { pump, host } = await expressOf(t);
    await single();
    await started(host, 1, 'the first task');
    const { flight, index } = host.started[0] ?? assert.fail();
    const from_ms = performance.now();
    pump.settle({ flight, index, verdict: 'r', delay_ms: 300, result: '[1,0,500,5]' });
    // The owner looks every minute by himself.
    await started(owner.host, 1, 'the next attempt');
    assert.ok(performance.now() - from_ms < 5_000);
    assert.equal(owner.host.started[0]?.attempt, 2);
    await until(isFree, 5_000, 'the next offer');
    await single();
    await started(host, 2, 'another task');
    const second = host.started[1] ?? assert.fail();
    pump.settle({ flight: second.flight, index: second.index, verdict: 'b', delay_ms: 0, result: '' });
    await started(owner.host, 2, 'what was handed back');
    assert.equal(owner.host.started[1]?.attempt, 1);
  });

  test('asks once for what Redis has in flight for it and nobody runs, and leaves that to the audit', async (t) => {
    const { pump, host } = await expressOf(t);
    await single();
    await started(host, 1, 'the task');
    const { flight, index } = host.started[0] ?? assert.fail();
    ended(pump, { flight, index } as Claimed);
    await pump.drained();
    // As where a failover forgot the settlement.
    await redis.zadd(keys.active(0, 'free'), Date.now() + 60_000, flight.name);
    const from = held.called.length;
    pump.look();
    await until(() => claims(from) > 0, 5_000, 'a claim that asks for it');
    await until(isFree, 5_000, 'the next offer');
    assert.ok(claims(from) <= 2, `${claims(from)} claims`);
    assert.equal(await pump.audit(), 0);
    assert.equal(await pump.audit(), 1);
  });

  test('offers again soon after somebody who had the partition before took its place', async (t) => {
    const { host } = await expressOf(t);
    await redis.hdel(keys.partition(0), 'free');
    await until(isFree, 2_000, 'the next offer');
    await single();
    await started(host, 1, 'the task');
  });

  test('hears nothing after it was let go of, until it is told so', async (t) => {
    const { pump, host } = await expressOf(t);
    await single();
    await started(host, 1, 'a task');
    pump.disown();
    await until(async () => !(await isFree()), 5_000, 'the offer to be gone');
    const { ticks } = host;
    pump.express();
    await until(() => host.ticks > ticks, 5_000, 'a look');
    assert.deepEqual([pump.hungry(), await isFree()], [false, false]);
    pump.hear(true);
    await until(isFree, 5_000, 'the offer');
  });

  test('takes its offer back when the partition is no longer its own', async (t) => {
    const { pump } = await expressOf(t);
    pump.disown();
    await until(async () => !(await isFree()), 5_000, 'the offer to be gone');
    await pump.drained();
  });

  test('is brought what came of its offer when it takes that back and did not hear of it', async (t) => {
    const { pump, host } = await deaf(t);
    await single();
    pump.disown();
    await started(host, 1, 'the task that came');
    assert.equal(host.started[0]?.single, true);
  });

  test('finds with its next look what was handed over and not heard', async (t) => {
    const { pump, host } = await deaf(t);
    await single();
    pump.glance();
    await started(host, 1, 'the task that came');
    await until(isFree, 5_000, 'the next offer');
  });

  test('starts at once what came when by its own reckoning it may be earlier', async (t) => {
    const { pump, host } = await expressOf(t);
    // As it is where nothing was heard for long.
    pump.clock.heard(Date.now() - 10, monotonicMs());
    await single();
    await started(host, 1, 'the task');
    assert.deepEqual(host.waits_ms.slice(-1), [0]);
  });

  test('starts once what it hears twice', async (t) => {
    const { pump, host, messages } = await deaf(t);
    await single();
    await until(() => messages.length === 1, 5_000, 'the task to be handed over');
    for (let k = 0; k < 2; k++) pump.handed(messages[0] ?? '');
    assert.equal(host.started.length, 1);
  });

  test('starts once what it hears and its claim brings', async (t) => {
    const { pump, host, messages } = await deaf(t);
    await single();
    await until(() => messages.length === 1, 5_000, 'the task to be handed over');
    held.meanwhile = async () => pump.handed(messages[0] ?? '');
    pump.look();
    await until(isFree, 5_000, 'the next offer');
    assert.equal(host.started.length, 1);
  });

  test('takes the place of somebody who was free before it', async (t) => {
    await redis.hset(keys.partition(0), 'free', 'gone 7 5000');
    const { pump, host } = scene(t, 'next');
    await listen(t, keys.handed(0), (message) => pump.handed(message));
    pump.hear(true);
    pump.express();
    await until(async () => (await offer())?.startsWith('next ') === true, 5_000, 'its own offer');
    await single();
    await started(host, 1, 'the task');
  });

  test('offers again after it took an offer back for nothing, as when Redis may have lost it', async (t) => {
    const { pump, host } = await expressOf(t);
    await redis.hdel(keys.partition(0), 'free');
    const from = held.called.length;
    pump.look();
    await until(isFree, 5_000, 'the next offer');
    assert.equal(claims(from), 1);
    await single();
    await started(host, 1, 'the next task');
    assert.equal(claims(from), 1);
  });

  test('has what came of an offer that it had forgotten called at once, and once', async (t) => {
    const owner = await ownerOf(t);
    const { pump, host } = await expressOf(t);
    // Its number has passed, as where a link was cut and the offer came to Redis twice.
    await redis.hset(keys.partition(0), 'free', 'free 1 5000');
    await single();
    await started(owner.host, 1, 'the task');
    const [task] = owner.host.started;
    assert.deepEqual([task?.attempt, task?.recoveries], [1, 0]);
    ended(owner.pump, task ?? assert.fail());
    await Promise.all([pump.drained(), owner.pump.drained()]);
    for (const holder of ['free', 'owner']) assert.equal(await redis.zcard(keys.active(0, holder)), 0);
    assert.deepEqual([host.started.length, owner.host.started.length], [0, 1]);
  });

  test('starts nothing that is in flight already', async (t) => {
    const owner = await ownerOf(t);
    const { pump, host, messages } = await deaf(t);
    await single();
    await until(() => messages.length === 1, 5_000, 'the task to be handed over');
    assert.equal(await pump.audit(), 0);
    assert.equal(await pump.audit(), 1);
    pump.handed(messages[0] ?? '');
    await started(owner.host, 1, 'the task, once it was handed back');
    assert.equal(host.started.length, 0);
  });

  test('does not start what it hears after others may have taken it over', async (t) => {
    const fence_ms = 200;
    const { pump, host, messages } = await deaf(t, { fence_ms });
    // While it waits for the answer to a look it says nothing that would make others think that it lives.
    const { ticks } = host;
    let answer = () => {};
    const answered = new Promise<void>((done) => {
      answer = done;
    });
    await until(() => held.under_way === 0, 5_000, 'all turns to be answered');
    held.meanwhile = () => answered;
    pump.glance();
    await until(() => held.meanwhile === null, 5_000, 'a look that is not answered');
    await single();
    const given_ms = performance.now();
    await until(() => messages.length === 1, 5_000, 'the task to be handed over');
    await redis.hset(keys.holders(0), 'free', 1);
    const other = scene(t, 'other', { client: redis });
    other.pump.own();
    await started(other.host, 1, 'another to have it');
    assert.deepEqual([other.host.started[0]?.attempt, other.host.started[0]?.recoveries], [2, 1]);
    await until(() => performance.now() - given_ms > 2 * fence_ms, 5_000, 'the time to pass after which others may have it');
    pump.handed(messages[0] ?? '');
    answer();
    await until(() => host.ticks > ticks && pump.empty, 5_000, 'the look in which it was heard');
    assert.equal(host.started.length, 0);
  });

  test('does not wait for an offer to be taken back where Redis is away', async (t) => {
    const host = new Patient();
    const nobody = new Redis({ path: `${path}.gone`, maxRetriesPerRequest: 0, retryStrategy: () => null, lazyConnect: true });
    t.after(() => nobody.disconnect());
    const { pump } = scene(t, 'free', { host, client: nobody });
    pump.express();
    await until(() => host.failures > 0, 5_000, 'a turn to fail');
    pump.disown(true);
    await pump.drained();
  });

  test('takes its offer back once Redis lets it, where it lost the partition while that did not', async (t) => {
    const host = new Patient();
    const { pump } = await deaf(t, { host });
    const before = (await offer()) ?? assert.fail();
    // Of the wrong type: every script that looks at it fails.
    await redis.set(keys.holders(0), 'x');
    pump.disown();
    await until(() => host.failures > 1, 5_000, 'turns to fail');
    let drained = false;
    void pump.drained().then(() => {
      drained = true;
    });
    const failures = host.failures;
    await until(() => host.failures > failures, 5_000, 'another turn to fail');
    assert.equal(drained, false);
    // Nothing of those turns was done; and what is handed over now nobody hears.
    await redis.hset(keys.partition(0), 'free', before);
    await redis.del(keys.holders(0));
    await single();
    await started(host, 1, 'the task that came');
    assert.equal(await isFree(), false);
  });
});

test('an owner makes no offer, and takes none back', async (t) => {
  await redis.hset(keys.partition(0), 'free', 'express 7 5000');
  const { pump, host } = await ownerOf(t);
  await create(1);
  await started(host, 1, 'the task');
  ended(pump, host.started[0] ?? assert.fail());
  await pump.drained();
  pump.look();
  await until(() => host.ticks > 1 && pump.empty, 5_000, 'another look');
  assert.equal(await offer(), 'express 7 5000');
});
