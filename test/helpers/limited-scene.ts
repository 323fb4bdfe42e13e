// Limiters and their tasks in every state that they can be in, in one partition, and the calls of scripts that change most of
// it; for tests that look at what a call leaves behind.
import assert from 'node:assert/strict';
import type { Redis } from 'ioredis';
import { newCore } from '../../src/base/id.ts';
import type { LimiterType } from '../../src/schema/limiters/kinds.ts';
import { keys } from '../../src/store/keys.ts';
import type { LimiterConfig } from '../../src/store/limiter-machines.ts';
import { createLimiter } from '../../src/store/limiters.ts';
import { relay } from '../../src/store/outbox.ts';
import type { Claimed, Verdict } from '../../src/store/partition.ts';
import type { TaskLimit } from '../../src/store/records.ts';
import type { RestValue } from '../../src/store/script.ts';
import { partitionGrant } from '../../src/store/scripts.gen.ts';
import { readHeld } from './outbox.ts';
import { ACCOUNT, type Rig, SETTINGS } from './rig.ts';

export interface LimitedScene {
  /** Kinds w, c and p. */
  window: TaskLimit;
  slots: TaskLimit;
  points: TaskLimit;
  /** Wait at their lanes but for a few, which are granted, or in flight (those of `flown`). */
  batch: string;
  flown: Claimed[];
  /** One of its tasks has failed. */
  failed: string;
  /** Wait in the outbox for this partition itself. */
  messages: string[];
  /** `<lane> <range>` and the sequence of the last message about it. */
  away: [field: string, sequence: string][];
  now_us: number;
}

export type ScriptCall = Record<string, RestValue | readonly RestValue[] | undefined>;

export async function limiter(rig: Rig, name: string, type: LimiterType, config: LimiterConfig, cost = 1): Promise<TaskLimit> {
  const lane = newCore(0, rig.now_ms);
  const timeouts = { queue_timeout: 60, validity_timeout: 604_800 };
  await createLimiter(rig.redis, {
    core: lane,
    account_id: ACCOUNT,
    name,
    type,
    config,
    description: null,
    timeouts,
    cooldown: 'limiter',
  });
  return { name, lane, kind: type.charAt(0), cost, valid_ms: 0 };
}

export async function grant(redis: Redis, now_ms: number, ahead_us = 0): Promise<void> {
  await partitionGrant.call(redis, { meta: keys.partition(0) }, { lanes_max: 16, tasks_max: 500, ahead_us, now_us: now_ms * 1000 });
}

/** On a rig that does not check after each call; whatever else is ready there stays where it is. */
export async function buildLimited(rig: Rig): Promise<LimitedScene> {
  const { redis } = rig;
  const window = await limiter(rig, 'window', 'window', { limit: 50, interval: 1 });
  const slots = await limiter(rig, 'slots', 'concurrent', { limit: 12 });
  const points = await limiter(rig, 'points', 'points', { capacity: 100, refill_rate: 1, interval: 60 }, 5);
  const failed = await rig.create({ tasks: [{ limit: window }, { limit: slots }], hold: true });
  await relay(redis, 0);
  await grant(redis, rig.now_ms);
  await relay(redis, 0);
  await rig.settle('h1', await ownClaim(rig, failed, 2), 'f');
  const batch = await rig.create({
    tasks: Array.from({ length: 90 }, (_, i) => ({
      limit: [window, slots, points][Math.floor(i / 30)] ?? null,
      due_ms: i % 30 < 25 ? 0 : rig.now_ms + 60_000,
    })),
  });
  const dropped = await rig.create({ tasks: Array.from({ length: 40 }, () => ({ limit: slots })) });
  await relay(redis, 0);
  await grant(redis, rig.now_ms);
  await relay(redis, 0);
  const flown = await ownClaim(rig, batch, 48);
  const ends: Verdict[] = ['c', 'r', 'b', 'k', 's'];
  for (const verdict of ends) {
    const told = verdict === 'k' ? { cool_ms: 50 } : verdict === 'c' ? { points: 2 } : {};
    const at = flown.findIndex(({ flight }) => flight.limit?.kind === (verdict === 'c' ? 'p' : 'c'));
    const [one] = flown.splice(at, 1);
    assert.ok(one && at >= 0, `a task for ${verdict} among ${flown.map(({ flight }) => flight.limit?.kind).join('')}`);
    await rig.settleAll('h1', [{ flight: one.flight, index: one.index, verdict, delay_ms: 0, result: '', ...told }]);
  }
  await rig.cancel(dropped);
  const held = await readHeld(redis, 0);
  const messages = held.outbox['0'] ?? [];
  const kinds = new Set(messages.map((message) => message.split(' ')[1]));
  for (const kind of ['back', 'free', 'queue', 'points', 'cool', 'drop']) assert.ok(kinds.has(kind), `a message ${kind}`);
  const away = Object.entries(held.away).map(([field, text]): [string, string] => [field, text.slice(0, text.indexOf(' '))]);
  return { window, slots, points, batch, flown, failed, messages, away, now_us: rig.now_ms * 1000 };
}

async function ownClaim(rig: Rig, core: string, budget: number): Promise<Claimed[]> {
  return (await rig.claim('h1', budget, { call_no: 900 + budget })).filter(({ flight }) => flight.core === core);
}

const KEEP = { keep_ms: SETTINGS.keep_ms, tray_keep_ms: SETTINGS.tray_keep_ms };
const CLAIM = { holder: 'h2', budget: 500, notes: 10, suspects: 1, recoveries_max: 3, grace_ms: 5000, limits: [0, 0] };

/** As a run says it, and as the request names it. */
function runOf({ lane, kind, cost }: TaskLimit): string {
  return `${lane},${kind},${cost},0`;
}

function recordArgs({ now_us }: LimitedScene, { lane }: TaskLimit): ScriptCall {
  return { core: lane, account: ACCOUNT, now_us: now_us + 1000 };
}

type Make = (scene: LimitedScene) => ScriptCall & { late_ms?: number };

export const LIMIT_CALLS: Record<string, Make[]> = {
  'batch/cancel': [({ batch: core }) => ({ core, account: ACCOUNT, keep_ms: 1 })],
  'task/cancel': [({ batch: core }) => ({ ...KEEP, core, index: 83, account: ACCOUNT, limiter: 'points', due_ms: 0 })],
  'limiter/create': [
    (scene) => ({
      ...recordArgs(scene, scene.window),
      core: newCore(0, 1),
      fields: ['name', 'new', 'kind', 'w', 'form', 'window', 'max', 5, 'interval_s', 1],
    }),
  ],
  'limiter/patch': [(scene) => ({ ...recordArgs(scene, scene.window), fields: ['max', 1000] })],
  'limiter/pause': [(scene) => ({ ...recordArgs(scene, scene.slots), until_ms: 'inf' })],
  'limiter/resume': [(scene) => recordArgs(scene, scene.slots)],
  'limiter/reset': [(scene) => recordArgs(scene, scene.points), (scene) => recordArgs(scene, scene.window)],
  'limiter/delete': [(scene) => recordArgs(scene, scene.window)],
  'limiter/read': [(scene) => ({ core: scene.slots.lane, now_us: scene.now_us })],
  'limiter/usage': [(scene) => recordArgs(scene, scene.slots)],
  'outbox/ask': [({ away }) => ({ fields: away.map(([field]) => field) })],
  'outbox/away': [
    ({ away, now_us }) => ({ asked_ms: now_us / 1000, answers: away.flatMap(([field, sequence], i) => [field, sequence, i % 2]) }),
  ],
  'outbox/overdue': [() => ({ after_ms: 30_000, limit: 500, late_ms: 60_000 })],
  'outbox/receive': [({ messages, now_us }) => ({ ...KEEP, source: 0, source_ms: now_us / 1000, unsure_ms: 0, ahead_ms: 0, messages })],
  'partition/claim': [() => ({ ...CLAIM, call_no: 7000, room: 1000 }), () => ({ ...CLAIM, call_no: 7001, room: 3 })],
  'partition/grant': [
    ({ now_us }) => ({ lanes_max: 16, tasks_max: 500, ahead_us: 0, now_us: now_us + 2_000_000 }),
    ({ now_us }) => ({ lanes_max: 16, tasks_max: 500, ahead_us: 0, now_us: now_us + 90_000_000 }),
    ({ now_us }) => ({ lanes_max: 16, tasks_max: 7, ahead_us: 30_000_000, now_us: now_us + 1_500_000 }),
  ],
  'partition/late': [({ window, points, now_us }) => ({ lates: [window.lane, now_us / 1000, 3, 4, points.lane, now_us / 1000, 5, 4] })],
  'partition/settle': [
    ({ flown }) => ({
      ...KEEP,
      holder: 'h1',
      parts: flown.slice(0, 4).flatMap(({ flight: { name, limit }, index }, i) => {
        const outcome = ['c', 'r', 'b', 'k'][i] ?? '';
        const delays = outcome === 'c' ? [0] : [1, index, 0];
        return [name, 1, index, 1, outcome, 0, ...delays, 1, limit?.kind === 'p' ? 'points' : 'cool', 7];
      }),
    }),
  ],
  'partition/tick': [
    () => ({ ...KEEP, holder: 'h9', silence_ms: 1000, gap_ms: 60_000, recoveries_max: 3, pressure: 0, late_ms: 2000 }),
    () => ({ ...KEEP, holder: 'h9', silence_ms: 1000, gap_ms: 600_000, recoveries_max: 1, pressure: 0, late_ms: 61_000 }),
  ],
  'task/retry': [
    ({ failed: core }) => ({
      core,
      index: 0,
      account: ACCOUNT,
      origin: 'o1',
      timeout_s: 30,
      due_ms: 0,
      limiter: 'window',
      cost: 1,
      valid_ms: 0,
      expiration_ms: 1000,
      op: 'op8',
    }),
  ],
};

/** Runs and limiters as scripts that make tasks take them: the first task for now, those after it for later. */
export function limitedRuns({ window, slots }: LimitedScene, due_ms: number, last = 1): RestValue[] {
  return [2, 0, 0, 'o1', 30, 0, runOf(window), 1, last, 'o1', 30, due_ms, runOf(slots)];
}

export function limitedLanes({ window, slots }: LimitedScene): RestValue[] {
  return [2, ...[window, slots].flatMap(({ name, lane, kind }) => [name, lane, kind])];
}
