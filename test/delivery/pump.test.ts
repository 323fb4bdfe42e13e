// A pump on a real partition, with a host that says when there are places.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SETTLE_DELAY_MS } from '../../src/base/limits.ts';
import { Pump } from '../../src/delivery/pump.ts';
import type { PumpSettings } from '../../src/delivery/pump-host.ts';
import { keys } from '../../src/store/keys.ts';
import { turn } from '../../src/store/partition.ts';
import { partitionClaim, partitionSettle, partitionTick } from '../../src/store/scripts.gen.ts';
import { until } from '../helpers/redis.ts';
import { DUE_AHEAD_MS, SETTINGS } from '../helpers/rig.ts';

import { create, Host, held, ORIGIN, redis } from './pump-scene.ts';

test('work that somebody else parked after the owner had let go of everything is found by its next look', async (t) => {
  const settings: PumpSettings = { ...SETTINGS, holder: 'owner', sweep_ms: 50, fence_ms: 60_000 };
  const host = new Host();
  const pump = new Pump(0, redis, settings, host);
  t.after(() => pump.close());
  pump.own();
  await create(1);
  pump.bell('0');
  await until(() => host.started.length === 1, 5_000, 'the first task to start');

  host.places = 0;
  await create(3);
  const claim = { call_no: 1, budget: 10, room: 10, notes: 10, suspects: 10, unpark: [], rooms: [[ORIGIN, 0]] as const };
  const left = await turn(redis, 0, { ...SETTINGS, holder: 'another' }, { settlements: [], tick: false, claim });
  assert.ok(left.claimed !== null && !(left.claimed instanceof Error));
  assert.deepEqual([left.claimed.parked, left.claimed.tasks], [[ORIGIN], []]);

  host.places = 100;
  pump.wake();
  await until(() => host.started.length === 4, 5_000, 'what was parked to start');
  const ticks = host.ticks;
  await until(() => host.ticks > ticks, 5_000, 'another look');
  assert.equal(await redis.scard(keys.parked(0)), 0);
});

test('work that somebody left in a partition that was not his is found after the glance that follows his end', async (t) => {
  const settings: PumpSettings = { ...SETTINGS, holder: 'stays', silence_ms: 2_500, sweep_ms: 60_000, fence_ms: 60_000 };
  const host = new Host();
  const pump = new Pump(0, redis, settings, host);
  t.after(() => pump.close());
  pump.own();
  await until(() => host.ticks > 0, 5_000, 'the first look');
  host.places = 0;
  await create(2);
  const claim = { call_no: 1, budget: 10, room: 10, notes: 10, suspects: 10, unpark: [], rooms: [] };
  const taken = await turn(redis, 0, { ...settings, holder: 'leaves' }, { settlements: [], tick: false, claim });
  assert.ok(taken.claimed !== null && !(taken.claimed instanceof Error));
  assert.equal(taken.claimed.tasks.length, 2);
  host.places = 100;
  pump.glance();
  await until(() => host.started.length === 2, 10_000, 'what was left behind to start');
  assert.deepEqual(
    host.started.map(({ recoveries }) => recoveries),
    [1, 1],
  );
});

test('who helps claims beside the owner, and leaves when nothing is left to claim and nothing in flight', async (t) => {
  const [mine, other] = [new Host(), new Host()];
  mine.places = 40;
  const owner = new Pump(0, redis, { ...SETTINGS, holder: 'owner', sweep_ms: 60_000, fence_ms: 60_000 }, mine);
  const helper = new Pump(0, redis, { ...SETTINGS, holder: 'helper', sweep_ms: 60_000, fence_ms: 60_000 }, other);
  t.after(() => [owner, helper].map((pump) => pump.close()));
  owner.own();
  await until(() => mine.ticks > 0 && owner.empty, 5_000, 'the first look');
  await create(96);
  mine.stillHungry = () => {};
  owner.bell('0');
  await until(() => mine.overflown === 1, 5_000, 'the owner to ask for help');
  assert.deepEqual([mine.told, mine.ready], [[], true]);
  mine.places = 0;
  helper.help([], true);
  await until(() => other.started.length === 96 - mine.started.length, 5_000, 'the rest to be claimed by who helps');
  assert.deepEqual([helper.owned, helper.claiming, other.helpers], [false, true, 0]);
  for (const { flight, index } of other.started) helper.settle({ flight, index, verdict: 'c', delay_ms: 0, result: '' });
  await until(() => other.helpers === 1, 5_000, 'it to leave');
  assert.equal(other.overflown, 0);
});

test('what one of two has parked for want of room the other claims, owner and helper alike, each time he is told of it', async (t) => {
  const [mine, other] = [new Host(), new Host()];
  const owner = new Pump(0, redis, { ...SETTINGS, holder: 'owner', sweep_ms: 60_000, fence_ms: 60_000 }, mine);
  const helper = new Pump(0, redis, { ...SETTINGS, holder: 'helper', sweep_ms: 60_000, fence_ms: 60_000 }, other);
  t.after(() => [owner, helper].map((pump) => pump.close()));
  for (const host of [mine, other]) host.stillHungry = () => {};
  owner.own();
  await until(() => mine.ticks > 0 && owner.empty, 5_000, 'the first look');
  // Nothing takes his room here, so a look of the owner's would bring what he has parked.
  const overflows = mine.overflows.bind(mine);
  mine.overflows = (...told) => {
    mine.places = 0;
    overflows(...told);
  };
  const ROOM = mine.origins.room();
  for (let round = 1; round <= 2; round++) {
    mine.places = 100;
    await create(ROOM + 40);
    owner.bell('0');
    await until(() => mine.overflown === round, 5_000, 'the owner to call');
    assert.deepEqual([mine.told, mine.ready, await redis.scard(keys.parked(0))], [[ORIGIN], false, 1]);
    helper.help(mine.told, false);
    await until(() => other.started.length === 40 * round, 5_000, 'the rest to be claimed by who helps');
    assert.equal(mine.started.length, ROOM * round);
  }
  assert.equal(other.overflown, 0);
  await create(ROOM + 40);
  helper.help([], true);
  await until(() => other.overflown === 1, 5_000, 'who helps to call');
  mine.places = 100;
  owner.help(other.told, false);
  await until(() => mine.started.length === 2 * ROOM + 40, 5_000, 'the rest to be claimed by the owner');
  assert.deepEqual([owner.owned, other.started.length], [true, 80 + ROOM]);
});

test('a claim that brings little calls nobody, whatever it leaves parked', async (t) => {
  const host = new Host();
  host.places = 31;
  const pump = new Pump(0, redis, { ...SETTINGS, holder: 'owner', sweep_ms: 60_000, fence_ms: 60_000 }, host);
  t.after(() => pump.close());
  host.stillHungry = () => {};
  await create(16);
  pump.own();
  await until(() => host.started.length > 0, 5_000, 'the first claim');
  assert.equal(host.overflown, 0);
});

test('what a helper leaves parked is let go of by the owner', async (t) => {
  const host = new Host();
  const pump = new Pump(0, redis, { ...SETTINGS, holder: 'owner', sweep_ms: 60_000, fence_ms: 60_000 }, host);
  t.after(() => pump.close());
  pump.own();
  await until(() => host.ticks > 0 && pump.empty, 5_000, 'the first look');
  const claim = { call_no: 1, budget: 10, room: 10, notes: 10, suspects: 10, unpark: [], rooms: [[ORIGIN, 0]] as const };
  await create(3);
  const left = await turn(redis, 0, { ...SETTINGS, holder: 'helper' }, { settlements: [], tick: false, claim });
  assert.ok(left.claimed !== null && !(left.claimed instanceof Error));
  assert.deepEqual([left.claimed.parked, left.claimed.tasks], [[ORIGIN], []]);
  pump.left();
  await until(() => host.started.length === 3, 5_000, 'what was parked to start');
});

test('work that comes while the reply to a claim is under way is claimed by the next turn', async (t) => {
  const host = new Host();
  const pump = new Pump(0, held, { ...SETTINGS, holder: 'claims', sweep_ms: 60_000, fence_ms: 60_000 }, host);
  t.after(() => pump.close());
  pump.own();
  await until(() => host.ticks > 0, 5_000, 'the first look');
  let next = 0;
  held.meanwhile = async () => {
    await create(1);
    pump.bell('0');
    next = held.called.length;
  };
  await create(1);
  pump.bell('0');
  await until(() => host.started.length === 2, 5_000, 'both tasks to start');
  assert.ok(held.called[next]?.includes(partitionClaim.sha), 'a look by the clock was needed');
});

test('a time that is told while the reply to a look is under way is kept', async (t) => {
  const host = new Host();
  const pump = new Pump(0, held, { ...SETTINGS, holder: 'looks', sweep_ms: 60_000, fence_ms: 60_000 }, host);
  t.after(() => pump.close());
  held.meanwhile = async () => pump.bell('1');
  pump.wake();
  await until(() => host.ticks === 2, 5_000, 'a second look');
});

test('work that comes due is claimed in the round trip that finds it', async (t) => {
  const host = new Host();
  const pump = new Pump(0, held, { ...SETTINGS, holder: 'due', sweep_ms: 60_000, fence_ms: 60_000 }, host);
  t.after(() => pump.close());
  pump.own();
  await until(() => host.ticks > 0 && pump.empty, 5_000, 'the first look');
  const from = held.called.length;
  const due_ms = Date.now() + 300;
  await create(1, due_ms);
  pump.bell(String(due_ms - DUE_AHEAD_MS));
  await until(() => host.started.length === 1, 5_000, 'the task to start');
  const claims = held.called.slice(from).filter((scripts) => scripts.includes(partitionClaim.sha));
  assert.deepEqual(claims, [[partitionTick.sha, partitionClaim.sha]]);
});

test('what is claimed after a long rest is started, and what was claimed long ago is not', async (t) => {
  const host = new Host();
  const pump = new Pump(0, held, { ...SETTINGS, holder: 'rests', sweep_ms: 60_000, fence_ms: 500 }, host);
  t.after(() => pump.close());
  pump.own();
  await until(
    () => host.ticks > 0 && pump.empty && !pump.fence.holds(pump.fence.since(0)),
    5_000,
    'the time to pass after which others may have taken over',
  );
  await create(1);
  pump.bell('0');
  await until(() => host.started.length === 1, 5_000, 'the task to start');
  assert.equal(host.fenced, 0);

  // The answer lies here while the process stands still; a turn that brings no task may come before it.
  const standStill = async (): Promise<void> => {
    held.meanwhile = standStill;
    await new Promise((done) => setTimeout(done, 600));
  };
  held.meanwhile = standStill;
  t.after(() => {
    held.meanwhile = null;
  });
  await create(1);
  pump.bell('0');
  await until(() => host.started.length === 2, 5_000, 'the late answer');
  assert.equal(host.fenced, 1);
});

test('the last outcome of those under way is told in the turn of the loop that brings it', async (t) => {
  const host = new Host();
  const pump = new Pump(0, held, { ...SETTINGS, holder: 'ends', sweep_ms: 60_000, fence_ms: 60_000 }, host);
  t.after(() => pump.close());
  pump.own();
  await until(() => host.ticks > 0 && pump.empty, 5_000, 'the first look');
  await create(2);
  pump.bell('0');
  await until(() => host.started.length === 2 && held.under_way === 0, 5_000, 'the tasks to start, and no turn to run');
  const end = (index: number): void => {
    const [{ flight } = assert.fail()] = host.started;
    pump.settle({ flight, index, verdict: 'c', delay_ms: 0, result: '' });
  };
  end(0);
  // The second comes when the first has waited for as long as one alone does, and not yet for as long as it keeps others company.
  for (const from_ms = performance.now(); performance.now() < from_ms + SETTLE_DELAY_MS; );
  const settles = (): number => held.called.flat().filter((sha) => sha === partitionSettle.sha).length;
  assert.equal(settles(), 0);
  end(1);
  assert.equal(settles(), 0, 'others of the same turn come with it');
  await new Promise((checked) => setImmediate(checked));
  assert.equal(settles(), 1);
  await until(() => pump.empty, 5_000, 'it to be told');
});
