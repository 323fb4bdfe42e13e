// A partition with something of everything in it, for scripts to be called on while its slot is half moved.
import assert from 'node:assert/strict';
import { keys } from '../../src/store/keys.ts';
import { encodeTargets } from '../../src/store/notes.ts';
import type { Claimed } from '../../src/store/partition.ts';
import { type Inspected, inspect } from '../../src/store/reconcile.ts';
import { encodeSegments, segmentFields } from '../../src/store/records.ts';
import { trigger } from '../../src/store/schedule-runs.ts';
import { buildLimited, type LimitedScene } from '../helpers/limited-scene.ts';
import { ACCOUNT, type Rig, SETTINGS, tasksOf } from '../helpers/rig.ts';
import { Ticks } from '../helpers/ticks.ts';

const MINUTE_MS = 60_000;

/** What the state that a script is called on has to offer. */
export interface Scene {
  running: string;
  held: string;
  flown: Claimed[];
  built_ms: number;
  limits: LimitedScene;
  fresh: string;
  tray: string;
  /** Have ended; a third one has begun its second round. */
  failed: string;
  expired: string;
  /** Schedules of tasks and of batches: a tick is due, runs are there; `staged` has a new template on its way in, `unborn` its first. */
  minutely: string;
  nightly: string;
  staged: string;
  unborn: string;
  /** As a reconciler saw them: `running`, `failed`, which a list has lost, and the batch of `limits`. */
  inspected: ReadonlyMap<string, Inspected>;
}

/** Notifications of each kind; those of progress may be merged. */
const ALL_EVENTS = 'pwebhookor110;fwebhookor1;swebhookor2;dwebhookor1;cwebhookor2;';

/** Something of everything: work that waits, runs, is late, has expired, is to be deleted; trays, maps, segments. */
export async function build(rig: Rig): Promise<Scene> {
  rig.checks = false;
  await rig.reset(1);
  const failed = await ended(rig, 'f');
  const expired = await ended(rig, 'r');
  const again = await ended(rig, 'f');
  await rig.create({ tasks: 3, expiration_ms: 20_000, labels: ['aaaaaaaaaa'], notify: ALL_EVENTS });
  const silent = await rig.create({ tasks: 20 });
  await rig.claim('silent', 16);
  await rig.settle('silent', await rig.claim('silent', 1), 'r', { delay_ms: 15_000 });
  await rig.cancel(await rig.create({ tasks: 1100, notify: ALL_EVENTS }));
  await rig.cancelTask(silent, 19);
  for (let k = 0; k < 5; k++) {
    rig.pass(2500);
    await rig.tick('h1');
  }
  const running = await rig.create({ tasks: 1200, task_keys: ['k1'], notify: ALL_EVENTS });
  await rig.create({ tasks: Array.from({ length: 200 }, (_, i) => ({ origin: `o${i % 90}` })), account: 'rival' });
  const held = await rig.create({ hold: true, notify: ALL_EVENTS });
  const { core: tray } = await rig.single(3);
  await rig.single(1, { account: 'rival' });
  const flown: Claimed[] = [];
  for (let k = 0; k < 12; k++) flown.push(...(await rig.claim('h1', 64, { call_no: 1000 + k })));
  await rig.settle('h1', flown.splice(0, 20), 'c');
  await rig.settle('h1', flown.splice(0, 5), 'f');
  await rig.settle('h1', flown.splice(0, 5), 'r', { delay_ms: 1000 });
  await rig.settle(
    'h1',
    flown.filter(({ flight }) => flight.core === held),
    'c',
  );
  await rig.retryBatch(again);
  await stage(rig, keys.staged(0, running, 'op', 0), 300);
  const fresh = rig.newCore();
  await stage(rig, keys.staged(0, fresh, 'new', 0), 40);
  const ticks = new Ticks(rig);
  const [minutely, nightly, staged] = [await ticks.make(), await ticks.make({ batch: 40 }), await ticks.make({ batch: 30 })];
  for (const core of [minutely, nightly, staged]) {
    await trigger(rig.redis, await ticks.row(core), { operation: 'before', now_ms: rig.now_ms });
  }
  const unborn = rig.newCore();
  await stage(rig, keys.scheduleStaged(0, unborn, '1', 0), 30);
  await stage(rig, keys.scheduleStaged(0, staged, 'op', 0), 30);
  rig.pass(MINUTE_MS);
  const limits = await buildLimited(rig);
  await rig.redis.zrem(keys.accountLabel(0, ACCOUNT, 'aaaaaaaaaa'), failed);
  const inspected = await inspect(rig.redis, 0, [running, failed, limits.batch], SETTINGS);
  rig.checks = true;
  await rig.check();
  const made = { minutely, nightly, staged, unborn };
  return {
    ...made,
    inspected: new Map(inspected.map((batch) => [batch.core, batch])),
    limits,
    built_ms: rig.now_ms,
    failed,
    expired,
    running,
    held,
    tray,
    fresh,
    flown: flown.filter(({ flight }) => flight.core === running),
  };
}

/** A batch that has ended: its tasks failed, or waited for a retry when it expired. */
async function ended(rig: Rig, verdict: 'f' | 'r'): Promise<string> {
  const notify = encodeTargets([{ event: 'on_finish', origin: 'webhookorg', min_interval_ms: 0 }]);
  const core = await rig.create({ tasks: 30, expiration_ms: 1000, labels: ['aaaaaaaaaa'], notify });
  await rig.settle('h3', await rig.claim('h3', 30), verdict, { delay_ms: 5000 });
  await rig.settle('h3', await rig.claim('h3', 30), 'c');
  rig.pass(1000);
  await rig.tick('h1');
  return core;
}

async function stage(rig: Rig, key: string, tasks: number): Promise<void> {
  const [segment] = encodeSegments(tasksOf(tasks));
  assert.ok(segment);
  await rig.redis.hset(key, ...segmentFields(segment));
  await rig.redis.pexpire(key, 60_000);
}
