// A pump on a real partition, with a host that says when there are places.
import assert from 'node:assert/strict';
import { after, beforeEach, test } from 'node:test';
import { type ChainableCommander, type Command, Redis } from 'ioredis';
import { newCore } from '../../src/base/id.ts';
import { Origins } from '../../src/delivery/origins.ts';
import { Pump } from '../../src/delivery/pump.ts';
import type { PumpHost, PumpSettings } from '../../src/delivery/pump-host.ts';
import { createBatch } from '../../src/store/batches.ts';
import { encodeTasks } from '../../src/store/encoded.ts';
import { keys } from '../../src/store/keys.ts';
import { type Claimed, preparePartitions, turn } from '../../src/store/partition.ts';
import { partitionClaim, partitionTick } from '../../src/store/scripts.gen.ts';
import { startRedis, until } from '../helpers/redis.ts';
import { ACCOUNT, DUE_AHEAD_MS, SETTINGS, tasksOf } from '../helpers/rig.ts';

const ORIGIN = 'o1';
const { redis, path } = await startRedis();

/** Does something after Redis has answered a pipeline and before anybody hears of it; knows which scripts each pipeline called. */
class Held extends Redis {
  readonly called: string[][] = [];
  meanwhile: (() => Promise<void>) | null = null;

  override sendCommand(command: Command, stream?: Parameters<Redis['sendCommand']>[1]): unknown {
    if (command.name === 'evalsha') this.called.at(-1)?.push(String(command.args[0]));
    return super.sendCommand(command, stream);
  }

  override pipeline(): ChainableCommander {
    const pipeline = super.pipeline();
    const exec = pipeline.exec.bind(pipeline);
    const held = async () => {
      this.called.push([]);
      const replies = await exec();
      const { meanwhile } = this;
      this.meanwhile = null;
      await meanwhile?.();
      return replies;
    };
    return Object.assign(pipeline, { exec: held });
  }
}

const held = new Held({ path });
after(() => held.disconnect());
beforeEach(async () => {
  await redis.flushall();
  await preparePartitions(redis, 1);
});

class Host implements PumpHost {
  readonly origins = new Origins(100, () => 100);
  readonly started: Claimed[] = [];
  places = 100;
  ticks = 0;
  reserve(_pump: Pump, wanted: number): number {
    return Math.min(wanted, this.places);
  }
  release(): void {}
  readonly has_notes = true;
  reserveNotes(wanted: number): number {
    return wanted;
  }
  releaseNotes(): void {}
  claimEnded(): void {}
  overflown = 0;
  overflows(): void {
    this.overflown += 1;
  }
  helpers = 0;
  helped(pump: Pump): void {
    this.helpers += 1;
    pump.disown();
  }
  stillHungry(pump: Pump): void {
    if (this.places > 0) pump.wake();
  }
  fenced = 0;
  run(pump: Pump, tasks: readonly Claimed[]): void {
    if (pump.fenced) this.fenced += 1;
    this.started.push(...tasks);
  }
  ticked(): void {
    this.ticks += 1;
  }
  granted(): void {}
  relay(): void {}
  carry(): void {}
  sweep(): void {}
  failed(_partition: number, error: Error): void {
    throw error;
  }
}

async function create(tasks: number, due_ms = 0): Promise<void> {
  await createBatch(redis, {
    partition: 0,
    core: newCore(0, Date.now()),
    account_id: ACCOUNT,
    doc: Buffer.from('{}'),
    tasks: encodeTasks(tasksOf(Array.from({ length: tasks }, () => ({ due_ms })))),
    expiration_ms: 3_600_000,
    expires_from_ms: 0,
    movable: false,
    hold: false,
    task_keys: [],
  });
}

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
  const claim = { call_no: 1, budget: 10, room: 10, notes: 10, unpark: [], rooms: [[ORIGIN, 0]] as const };
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
  const claim = { call_no: 1, budget: 10, room: 10, notes: 10, unpark: [], rooms: [] };
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
  mine.places = 0;
  helper.help();
  await until(() => other.started.length === 96 - mine.started.length, 5_000, 'the rest to be claimed by who helps');
  assert.deepEqual([helper.owned, helper.claiming, other.helpers], [false, true, 0]);
  for (const { flight, index } of other.started) helper.settle({ flight, index, verdict: 'c', delay_ms: 0, result: '' });
  await until(() => other.helpers === 1, 5_000, 'it to leave');
  assert.equal(other.overflown, 0);
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
  const claim = { call_no: 1, budget: 10, room: 10, notes: 10, unpark: [], rooms: [[ORIGIN, 0]] as const };
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
  const pump = new Pump(0, held, { ...SETTINGS, holder: 'rests', sweep_ms: 60_000, fence_ms: 200 }, host);
  t.after(() => pump.close());
  pump.own();
  await until(() => host.ticks > 0 && pump.empty && pump.fenced, 5_000, 'the time to pass after which others may have taken over');
  await create(1);
  pump.bell('0');
  await until(() => host.started.length === 1, 5_000, 'the task to start');
  assert.equal(host.fenced, 0);

  // The answer lies here while the process stands still.
  held.meanwhile = () => new Promise((done) => setTimeout(done, 250));
  await create(1);
  pump.bell('0');
  await until(() => host.started.length === 2, 5_000, 'the late answer');
  assert.equal(host.fenced, 1);
});
