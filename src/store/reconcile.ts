// Batches held against what is kept of them: their tasks' state bytes say what the counters must be. Every repair is one script that
// writes only where the batch is still as it was counted, so a batch that changes all the time is left until it rests.
import { partitionOf } from '../base/id.ts';
import { BATCH_REPAIRS, type BatchRepair } from '../schema/batch.ts';
import type { Keep } from './batches.ts';
import { keys } from './keys.ts';
import type { RedisClient } from './script.ts';
import { batchInspect, batchRepair, batchRequeue, partitionMend } from './scripts.gen.ts';
import { STATE } from './task-rows.ts';

/** What is set right: see docs/metrics.md, reconciled_total. */
export const REPAIRS = [...BATCH_REPAIRS, 'queue', 'flight', 'ring', 'holder', 'outbox', 'away'] as const;
export type Repair = (typeof REPAIRS)[number];
/** Of what, how much was set right; `where` names the batch or the partition. */
export type RepairMeter = (where: Readonly<Record<string, unknown>>, what: Repair, count: number) => void;

export interface Counts {
  total: number;
  completed: number;
  failed: number;
  cancelled: number;
  running: number;
}

/** A batch, tray or companion as it is kept. */
export interface Inspected extends Counts {
  core: string;
  /** Names this state of it. */
  seen: string;
  status: string;
  account_id: string;
  /** State bytes that it has. */
  states: number;
  ended: boolean;
  /** It is not where lists and deadlines should have it. */
  misplaced: boolean;
}

/** Tasks from..to that a round has not reached. */
export type Span = readonly [from: number, to: number];

/** What came of a repair; `moved`: the batch changed all the time. */
export type Repaired = { kind: 'gone' } | { kind: 'moved' } | { kind: 'done'; repaired: BatchRepair[] };

/** Bytes that are read at once: about a tenth of a millisecond of Redis, one of this process. */
const STATES_SLICE = 1_048_576;
/** A batch in which something happens is not counted more often than this before it is left alone. */
const TRIES_MAX = 5;
const LIVE: ReadonlySet<string> = new Set(['pending', 'processing', 'tray', 'notes']);

/** Those of these batches of one partition that are there. */
export async function inspect(client: RedisClient, partition: number, cores: readonly string[], keep: Keep): Promise<Inspected[]> {
  const rows = await batchInspect.call(client, { meta: keys.partition(partition) }, { ...keep, cores: [...cores] });
  return rows.map(([core, seen, status, account_id, total, completed, failed, cancelled, running, states, ended, misplaced]) => {
    const counts = { total, completed, failed, cancelled, running };
    return { core, seen, status, account_id, ...counts, states, ended: ended === 1, misplaced: misplaced === 1 };
  });
}

/** Whether its tasks may wait or run still. */
export function isLive({ status }: Pick<Inspected, 'status'>): boolean {
  return LIVE.has(status);
}

/** What a round had not reached when the batch was in this state. */
export function spanOf(seen: string): Span | null {
  const [from, to] = (seen.split(' ')[2] ?? '').split(',').map(Number);
  return from === undefined || to === undefined ? null : [from, to];
}

/** The batch's rounds after its first, in this state. */
export function roundOf(seen: string): number {
  return Number(seen.split(' ')[1]);
}

/** What the state bytes say. They are read in slices: what is written by it must compare what names the state. */
export async function count(client: RedisClient, { core, seen, status }: Inspected): Promise<Counts> {
  const key = keys.states(partitionOf(core), core);
  const span = spanOf(seen);
  const bytes = new Float64Array(256);
  const undealt = new Float64Array(256);
  let total = 0;
  for (;;) {
    const slice = await client.getrangeBuffer(key, total, total + STATES_SLICE - 1);
    const [from, after] = span === null ? [slice.length, slice.length] : [span[0] - total, span[1] + 1 - total];
    for (let i = 0; i < slice.length; i++) {
      const into = i >= from && i < after ? undealt : bytes;
      const byte = slice[i] as number;
      into[byte] = (into[byte] as number) + 1;
    }
    total += slice.length;
    if (slice.length < STATES_SLICE) break;
  }
  const all = (state: string): number => (bytes[state.charCodeAt(0)] ?? 0) + (undealt[state.charCodeAt(0)] ?? 0);
  const dealt = (state: string): number => bytes[state.charCodeAt(0)] ?? 0;
  const failed = dealt(STATE.failed) + dealt(STATE.expired);
  const waiting = all(STATE.queued) + all(STATE.retrying) + all(STATE.failed) + all(STATE.expired) - failed;
  return {
    total,
    completed: all(STATE.completed),
    failed: failed + (status === 'expired' ? waiting : 0),
    cancelled: all(STATE.cancelled) + (status === 'cancelled' ? waiting : 0),
    running: all(STATE.processing) + all(STATE.processing_again),
  };
}

/** Whether a batch is as these counts say, and where it should be. */
export function isRight(batch: Inspected, counts: Counts): boolean {
  if (batch.misplaced || isOver(counts) !== isOver(batch)) return false;
  return (Object.keys(counts) as (keyof Counts)[]).every((field) => counts[field] === batch[field]);
}

function isOver({ total, completed, failed, cancelled }: Counts): boolean {
  return total === completed + failed + cancelled;
}

/** Counts a batch and sets it right. What must be looked at by its owner alone needs no repair: one without tasks is no batch. */
export async function repair(client: RedisClient, batch: Inspected, keep: Keep): Promise<Repaired> {
  let now: Inspected | undefined = batch;
  for (let tries = 0; tries < TRIES_MAX && now !== undefined; tries++) {
    const counts = await count(client, now);
    if (counts.total === 0) return { kind: 'gone' };
    const args = { core: now.core, seen: now.seen, ...counts, ...keep };
    const found: string[] = await batchRepair.call(client, { meta: keys.partition(partitionOf(now.core)) }, args);
    if (found[0] === 'gone') return { kind: 'gone' };
    if (found[0] !== 'moved') return { kind: 'done', repaired: found as BatchRepair[] };
    [now] = await inspect(client, partitionOf(now.core), [now.core], keep);
  }
  return { kind: now === undefined ? 'gone' : 'moved' };
}

/** The same of one batch, whatever its state. */
export async function verify(client: RedisClient, core: string, keep: Keep): Promise<Repaired> {
  const [batch] = await inspect(client, partitionOf(core), [core], keep);
  return batch === undefined ? { kind: 'gone' } : repair(client, batch, keep);
}

/** Neighbours that are to be queued again alike. */
export interface Stretch {
  from: number;
  to: number;
  /** Hash of the origin; `*` for all that a round has not reached. */
  origin: string;
  timeout_s: number;
  due_ms: number;
  /** Attempts of this round that ended. */
  attempts: number;
  /** Name of its limiter, '' for none. */
  limiter: string;
  cost: number;
  valid_ms: number;
}

/** Tasks of one call of `requeue` at most. */
export const REQUEUE_MAX = 500;

/** Queues stretches again. `seen` names the state of the batch afterwards, '' where it was another one and nothing was done. */
export async function requeue(
  client: RedisClient,
  { core, seen }: Pick<Inspected, 'core' | 'seen'>,
  stretches: readonly Stretch[],
  keep: Keep,
): Promise<{ waited: number; flew: number; seen: string }> {
  const parts = stretches.flatMap(({ from, to, origin, timeout_s, due_ms, attempts, limiter, cost, valid_ms }) => [
    ...[from, to, origin, timeout_s, due_ms, attempts, limiter, cost, valid_ms],
  ]);
  const args = { core, seen, ...keep, parts };
  const [waited, flew, after] = await batchRequeue.call(client, { meta: keys.partition(partitionOf(core)) }, args);
  return { waited, flew, seen: after };
}

/** Puts back what leads to these keys of a partition (without its root). What was put back, of each kind that there was. */
export async function mend(client: RedisClient, partition: number, names: readonly string[]): Promise<Map<Repair, number>> {
  const meta = keys.partition(partition);
  const [ring, holder, outbox, , search] = await partitionMend.call(client, { meta }, { names: [...names] });
  const away = search === 1 ? await mendAway(client, partition) : 0;
  const mended: [Repair, number][] = [
    ['ring', ring],
    ['holder', holder],
    ['outbox', outbox],
    ['away', away],
  ];
  return new Map(mended.filter(([, number]) => number > 0));
}

async function mendAway(client: RedisClient, partition: number): Promise<number> {
  let cursor = '0';
  let mended = 0;
  do {
    const [next, pairs] = await client.hscan(keys.away(partition), cursor, 'COUNT', 500);
    const names = pairs.filter((_, i) => i % 2 === 0).map((field) => `away ${field}`);
    const [, , , away] = await partitionMend.call(client, { meta: keys.partition(partition) }, { names });
    mended += away;
    cursor = next;
  } while (cursor !== '0');
  return mended;
}
