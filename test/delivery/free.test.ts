// A pump that has nothing left to claim is handed the next task: src/delivery/calls.ts.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Redis } from 'ioredis';
import { monotonicMs } from '../../src/base/clock.ts';
import { newCore } from '../../src/base/id.ts';
import { Pump } from '../../src/delivery/pump.ts';
import { createTasks, newOperation } from '../../src/store/batches.ts';
import { keys } from '../../src/store/keys.ts';
import type { Claimed } from '../../src/store/partition.ts';
import { partitionClaim } from '../../src/store/scripts.gen.ts';
import { until } from '../helpers/redis.ts';
import { ACCOUNT, SETTINGS, tasksOf } from '../helpers/rig.ts';

import { create, Host, held, path, redis } from './pump-scene.ts';

/** Takes it that turns fail. */
class Patient extends Host {
  failures = 0;
  override failed(): void {
    this.failures += 1;
  }
}

describe('a pump with nothing left to claim', () => {
  const ring = async (pump: Pump): Promise<() => void> => {
    const listener = redis.duplicate();
    listener.on('smessageBuffer', (name: Buffer, message: Buffer) => {
      if (name.toString() === keys.bell(0)) pump.bell(message.toString('latin1'));
      else pump.handed(message.toString('latin1'));
    });
    await listener.ssubscribe(keys.bell(0));
    await listener.ssubscribe(keys.handed(0));
    return () => listener.disconnect();
  };
  const single = (): Promise<unknown> =>
    createTasks(redis, {
      ...{ partition: 0, core: newCore(0, Date.now()), account_id: ACCOUNT, operation: newOperation() },
      tasks: tasksOf(1),
    });
  const settled = (pump: Pump, { flight, index }: Claimed): void =>
    pump.settle({ flight, index, verdict: 'c', delay_ms: 0, result: '[1,0,200,5]' });
  const claims = (from: number): number => held.called.slice(from).filter((scripts) => scripts.includes(partitionClaim.sha)).length;
  const isFree = async (): Promise<boolean> => (await redis.hexists(keys.partition(0), 'free')) === 1;
  /** It owns the partition, has ended a first task, and has offered to take the next. */
  const offering = async (pump: Pump, host: Host): Promise<void> => {
    await single();
    pump.own();
    await until(() => host.started.length === 1, 5_000, 'the first task');
    settled(pump, host.started[0] ?? assert.fail());
    await until(isFree, 5_000, 'the offer');
  };

  test('is brought task after task by the bell, and claims none of them', async (t) => {
    const host = new Host();
    const pump = new Pump(0, held, { ...SETTINGS, holder: 'free', sweep_ms: 60_000, fence_ms: 60_000 }, host);
    t.after(await ring(pump));
    t.after(() => pump.close());
    pump.own();
    await until(() => host.ticks > 0 && pump.empty, 5_000, 'the first look');
    await single();
    await until(() => host.started.length === 1, 5_000, 'the first task');
    let rounds = 0;
    for (let k = 1; rounds < 5; k++) {
      assert.ok(k <= 20, 'none comes by the bell alone');
      const [from, looks] = [held.called.length, host.ticks];
      settled(pump, host.started.at(-1) ?? assert.fail());
      await until(isFree, 5_000, 'the offer');
      await single();
      await until(() => host.started.length === k + 1, 5_000, `task ${k}`);
      // A look of the pump's own may find it before the bell is heard: that round does not count.
      if (host.ticks > looks) continue;
      assert.equal(claims(from), 0);
      rounds += 1;
    }
    assert.equal(new Set(host.started.map(({ flight, index }) => `${flight.core} ${index}`)).size, host.started.length);
    settled(pump, host.started.at(-1) ?? assert.fail());
    await pump.drained();
    assert.equal(await pump.audit(), 0);
    assert.equal(await redis.zcard(keys.active(0, 'free')), 0);
  });

  test('starts once what the bell and its claim bring together', async (t) => {
    const host = new Host();
    const pump = new Pump(0, held, { ...SETTINGS, holder: 'free', sweep_ms: 60_000, fence_ms: 60_000 }, host);
    t.after(await ring(pump));
    t.after(() => pump.close());
    pump.own();
    await until(() => host.ticks > 0 && pump.empty, 5_000, 'the first look');
    await single();
    await until(() => host.started.length === 1, 5_000, 'the first task');
    settled(pump, host.started[0] ?? assert.fail());
    await until(isFree, 5_000, 'the offer');
    await pump.drained();
    // A claim takes the offer back, brings a batch's task, and while its answer is under way a single one comes.
    held.meanwhile = single as () => Promise<void>;
    await create(1);
    pump.bell('0');
    await until(() => host.started.length === 3, 5_000, 'both tasks');
    for (const task of host.started.slice(1)) settled(pump, task);
    await until(isFree, 5_000, 'the next offer');
    await single();
    await until(() => host.started.length === 4, 5_000, 'one more');
    settled(pump, host.started[3] ?? assert.fail());
    await pump.drained();
    assert.equal(new Set(host.started.map(({ flight, index }) => `${flight.core} ${index}`)).size, 4);
  });

  test('takes its offer back when it is no longer the owner', async (t) => {
    const host = new Host();
    const pump = new Pump(0, held, { ...SETTINGS, holder: 'free', sweep_ms: 60_000, fence_ms: 60_000 }, host);
    t.after(await ring(pump));
    t.after(() => pump.close());
    pump.own();
    await single();
    await until(() => host.started.length === 1, 5_000, 'the first task');
    settled(pump, host.started[0] ?? assert.fail());
    await until(isFree, 5_000, 'the offer');
    pump.disown();
    await until(async () => !(await isFree()), 5_000, 'the offer to be gone');
  });

  test('is brought what came of its offer when it takes that back and did not hear the bell', async (t) => {
    const host = new Host();
    const pump = new Pump(0, held, { ...SETTINGS, holder: 'free', sweep_ms: 60_000, fence_ms: 60_000 }, host);
    t.after(() => pump.close());
    await offering(pump, host);
    await single();
    await create(1);
    pump.disown();
    await until(() => host.started.length === 2, 5_000, 'the task that came');
    assert.equal(host.started[1]?.single, true);
  });

  test('finds with its next look what was handed over and not heard', async (t) => {
    const host = new Host();
    const pump = new Pump(0, held, { ...SETTINGS, holder: 'free', sweep_ms: 60_000, fence_ms: 60_000 }, host);
    t.after(() => pump.close());
    await offering(pump, host);
    await pump.drained();
    await single();
    pump.glance();
    await until(() => host.started.length === 2, 5_000, 'the task that came');
  });

  test('starts at once what came when by its own reckoning it may be earlier', async (t) => {
    const host = new Host();
    const pump = new Pump(0, held, { ...SETTINGS, holder: 'free', sweep_ms: 60_000, fence_ms: 60_000 }, host);
    t.after(await ring(pump));
    t.after(() => pump.close());
    await offering(pump, host);
    await pump.drained();
    // As it is where nothing was heard for long.
    pump.clock.heard(Date.now() - 10, monotonicMs());
    await single();
    await until(() => host.started.length === 2, 5_000, 'the second task');
    assert.deepEqual(host.waits_ms.slice(-1), [0]);
  });

  test('starts once what it hears twice', async (t) => {
    const host = new Host();
    const pump = new Pump(0, held, { ...SETTINGS, holder: 'free', sweep_ms: 60_000, fence_ms: 60_000 }, host);
    const messages: string[] = [];
    const listener = redis.duplicate();
    listener.on('smessageBuffer', (_name: Buffer, message: Buffer) => messages.push(message.toString('latin1')));
    await listener.ssubscribe(keys.handed(0));
    t.after(() => listener.disconnect());
    t.after(() => pump.close());
    await offering(pump, host);
    await pump.drained();
    await single();
    await until(() => messages.length === 1, 5_000, 'the task to be handed over');
    for (let k = 0; k < 2; k++) pump.handed(messages[0] ?? '');
    assert.equal(host.started.length, 2);
  });

  test('is not brought what somebody before it was free for', async (t) => {
    const host = new Host();
    await redis.hset(keys.partition(0), 'free', 'gone 7 5000');
    const pump = new Pump(0, held, { ...SETTINGS, holder: 'next', sweep_ms: 60_000, fence_ms: 60_000 }, host);
    t.after(await ring(pump));
    t.after(() => pump.close());
    pump.own();
    await until(() => host.ticks > 0 && pump.empty, 5_000, 'the first look');
    await single();
    await until(() => host.started.length === 1, 5_000, 'the task');
  });

  test('offers again after it took an offer back for nothing', async (t) => {
    const host = new Host();
    const pump = new Pump(0, held, { ...SETTINGS, holder: 'free', sweep_ms: 60_000, fence_ms: 60_000 }, host);
    t.after(await ring(pump));
    t.after(() => pump.close());
    pump.own();
    await single();
    await until(() => host.started.length === 1, 5_000, 'the first task');
    settled(pump, host.started[0] ?? assert.fail());
    await until(isFree, 5_000, 'the offer');
    await pump.drained();
    const from = held.called.length;
    pump.bell('0');
    await until(() => claims(from) === 1 && pump.empty, 5_000, 'a claim that brings nothing');
    await until(isFree, 5_000, 'the next offer');
    await single();
    await until(() => host.started.length === 2, 5_000, 'the next task');
    assert.equal(claims(from), 1);
  });

  test('has what came of an offer that it had forgotten called at once, and once', async (t) => {
    const host = new Host();
    const pump = new Pump(0, held, { ...SETTINGS, holder: 'free', sweep_ms: 60_000, fence_ms: 60_000 }, host);
    t.after(await ring(pump));
    t.after(() => pump.close());
    pump.own();
    await until(() => host.ticks > 0 && pump.empty, 5_000, 'the first look');
    // Its number has passed, as where a link was cut and the offer came to Redis twice.
    await redis.hset(keys.partition(0), 'free', 'free 1 5000');
    await single();
    await until(() => host.started.length === 1, 5_000, 'the task');
    const [task] = host.started;
    assert.deepEqual([task?.attempt, task?.recoveries], [1, 0]);
    settled(pump, task ?? assert.fail());
    await pump.drained();
    assert.equal(await redis.zcard(keys.active(0, 'free')), 0);
    assert.equal(host.started.length, 1);
  });

  test('starts nothing that is in flight already', async (t) => {
    const host = new Host();
    const pump = new Pump(0, held, { ...SETTINGS, holder: 'free', sweep_ms: 60_000, fence_ms: 60_000 }, host);
    const messages: string[] = [];
    const listener = redis.duplicate();
    listener.on('smessageBuffer', (_name: Buffer, message: Buffer) => messages.push(message.toString('latin1')));
    await listener.ssubscribe(keys.handed(0));
    t.after(() => listener.disconnect());
    t.after(() => pump.close());
    await offering(pump, host);
    await pump.drained();
    await single();
    await until(() => messages.length === 1, 5_000, 'the task to be handed over');
    assert.equal(await pump.audit(), 0);
    assert.equal(await pump.audit(), 1);
    pump.handed(messages[0] ?? '');
    await until(() => host.started.length === 2, 5_000, 'the task, once it was handed back');
    settled(pump, host.started[1] ?? assert.fail());
    await pump.drained();
    assert.equal(host.started.length, 2);
  });

  test('does not start what it hears after others may have taken it over', async (t) => {
    const fence_ms = 200;
    const [host, others] = [new Host(), new Host()];
    const pump = new Pump(0, held, { ...SETTINGS, holder: 'frozen', sweep_ms: 60_000, fence_ms }, host);
    const other = new Pump(0, redis, { ...SETTINGS, holder: 'other', sweep_ms: 60_000, fence_ms: 60_000 }, others);
    const messages: string[] = [];
    const listener = redis.duplicate();
    listener.on('smessageBuffer', (_name: Buffer, message: Buffer) => messages.push(message.toString('latin1')));
    await listener.ssubscribe(keys.handed(0));
    t.after(() => listener.disconnect());
    t.after(() => pump.close());
    t.after(() => other.close());
    await offering(pump, host);
    await pump.drained();
    await single();
    const given_ms = performance.now();
    await until(() => messages.length === 1, 5_000, 'the task to be handed over');
    await redis.hset(keys.holders(0), 'frozen', 1);
    other.own();
    await until(() => others.started.length === 1, 5_000, 'another to have it');
    assert.deepEqual([others.started[0]?.attempt, others.started[0]?.recoveries], [2, 1]);
    await until(() => performance.now() - given_ms > 2 * fence_ms, 5_000, 'the time to pass after which others may have it');
    const from = host.ticks;
    held.meanwhile = async () => pump.handed(messages[0] ?? '');
    pump.glance();
    await until(() => host.ticks > from && pump.empty, 5_000, 'a look in which it is heard');
    assert.equal(host.started.length, 1);
  });

  test('does not wait for an offer to be taken back where Redis is away', async (t) => {
    const host = new Patient();
    const nobody = new Redis({ path: `${path}.gone`, maxRetriesPerRequest: 0, retryStrategy: () => null, lazyConnect: true });
    const pump = new Pump(0, nobody, { ...SETTINGS, holder: 'free', sweep_ms: 60_000, fence_ms: 60_000 }, host);
    t.after(() => pump.close());
    t.after(() => nobody.disconnect());
    pump.own();
    await until(() => host.failures > 0, 5_000, 'a turn to fail');
    pump.disown(true);
    await pump.drained();
  });

  test('takes its offer back once Redis lets it, where it lost the partition while that did not', async (t) => {
    const host = new Patient();
    const pump = new Pump(0, held, { ...SETTINGS, holder: 'free', sweep_ms: 60_000, fence_ms: 60_000 }, host);
    t.after(() => pump.close());
    await offering(pump, host);
    // Of the wrong type: every script that looks at it fails.
    await redis.set(keys.holders(0), 'x');
    pump.glance();
    await until(() => host.failures > 0, 5_000, 'a turn to fail');
    const offer = (await redis.hget(keys.partition(0), 'free')) ?? assert.fail();
    pump.disown();
    let drained = false;
    void pump.drained().then(() => {
      drained = true;
    });
    const failures = host.failures;
    await until(() => host.failures > failures, 5_000, 'another turn to fail');
    assert.equal(drained, false);
    // Nothing of those turns was done; and what is handed over now nobody hears.
    await redis.hset(keys.partition(0), 'free', offer);
    await redis.del(keys.holders(0));
    await single();
    await until(() => host.started.length === 2, 5_000, 'the task that came');
    assert.equal(await isFree(), false);
  });
});
