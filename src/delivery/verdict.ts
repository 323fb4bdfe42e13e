// From the outcome of a call to what becomes of its task. Pure: time and chance are arguments.
//
//   success                          completed
//   final                            failed
//   stopped by the shutdown          handed back, uncounted
//   never sent (`stale`)             handed back, uncounted
//   429, 503 with Retry-After        handed back, uncounted, where its limiter closes for as long
//   retry, none left                 failed
//   retry, next start too late       failed, `expired`; by its limiter's validity_timeout: to the limiter when that is over, which fails it
//   retry                            again after the back-off, or after Retry-After where that is later
import type { Outcome } from '../outbound/call.ts';
import type { Claimed, Settlement } from '../store/partition.ts';
import type { AttemptEnd } from './meter.ts';
import type { CallSpec } from './spec.ts';

export interface Now {
  /** The partition's clock. */
  now_ms: number;
  /** In [0, 1). */
  dice: number;
  /** Until when its limiter lets it start at all; null where there is no such time, or the task has one of its own. */
  invalid_ms?: number | null;
}

/** What an outcome is called in the metrics. */
export const END_NAMES: Record<Settlement['verdict'], AttemptEnd> = {
  c: 'completed',
  r: 'retried',
  f: 'failed',
  u: 'failed',
  b: 'returned',
  s: 'returned',
  k: 'retried',
};

/** What is kept of an attempt; trailing nulls are left out. Read by api/present.ts. */
export type StoredResult = [
  /** When it ended, by the partition's clock. */
  at_ms: number,
  attempts: number,
  recoveries: number,
  status_code: number | null,
  duration_ms: number | null,
  error_code?: string | null,
  error_message?: string | null,
  excerpt?: string | null,
  /** Of a notification that is to be sent again: when. */
  next_ms?: number | null,
];

/** So long after a task has become too old for its limiter it comes to that, whose clock may be another. */
const TOO_OLD_MS = 100;
const EXPIRED = { code: 'expired', message: 'valid_until passed before the task could start.' };

/** The settlement of an attempt that was made. */
export function settlementOf(task: Claimed, spec: CallSpec, outcome: Outcome, now: Now): Settlement {
  if (outcome.error?.code === 'shutdown') return handedBack(task, 0, 's');
  if (outcome.error?.code === 'stale') return handedBack(task, 0);
  const { now_ms } = now;
  if (outcome.verdict === 'success' && task.flight.limit === null) return settled(task, 'c', 0, resultOf(task, now_ms, outcome));
  const settle = (verdict: Settlement['verdict'], delay_ms: number, error: { code: string; message: string } | null): Settlement =>
    settled(task, verdict, delay_ms, resultOf(task, now_ms, { ...outcome, error }));
  return { ...judged(task, spec, outcome, now, settle), ...pointsOf(task, outcome) };
}

type Settle = (verdict: Settlement['verdict'], delay_ms: number, error: { code: string; message: string } | null) => Settlement;

function judged(task: Claimed, spec: CallSpec, outcome: Outcome, { now_ms, dice, invalid_ms = null }: Now, settle: Settle): Settlement {
  if (outcome.verdict === 'success') return settle('c', 0, null);
  const cool_ms = coolOf(task, outcome);
  if (cool_ms > 0) return { ...settled(task, 'k', 0, resultOf({ ...task, attempt: task.attempt - 1 }, now_ms, outcome)), cool_ms };
  const failures = task.attempt - task.recoveries;
  if (outcome.verdict === 'final' || failures > spec.retry.max_retries) return settle('f', 0, outcome.error);
  const delay_ms = Math.max(backoffMs(spec, failures, dice), outcome.retry_after_ms ?? 0);
  if (spec.valid_until_ms !== null && now_ms + delay_ms > spec.valid_until_ms) return settle('f', 0, EXPIRED);
  if (invalid_ms !== null) return settle('r', Math.min(delay_ms, Math.max(0, invalid_ms - now_ms) + TOO_OLD_MS), outcome.error);
  return settle('r', delay_ms, outcome.error);
}

/** How long the limiter is closed for all, because of this answer; an attempt that is refused so does not count. */
function coolOf({ flight }: Claimed, { verdict, status_code, retry_after_ms }: Outcome): number {
  const refused = verdict === 'retry' && (status_code === 429 || status_code === 503);
  return refused && flight.limit?.cools === true ? (retry_after_ms ?? 0) : 0;
}

/** What the target says that it used beyond, or short of, what the task took. */
function pointsOf({ flight }: Claimed, { points_used }: Outcome): { points?: number } {
  if (flight.limit?.kind !== 'p' || points_used === null) return {};
  return { points: points_used - flight.limit.cost };
}

/**
 * The settlement of a notification that was sent. `delays_ms` lie between its tries; nothing that the batch's creator says
 * changes them, but the receiver may ask for more time, or for no further try. 410 does not ask: final for a task, it is here
 * one of the answers that are not 2xx, and the contract retries them all.
 */
export function settlementOfNotification(task: Claimed, delays_ms: readonly number[], outcome: Outcome, { now_ms, dice }: Now): Settlement {
  if (outcome.error?.code === 'shutdown' || outcome.error?.code === 'stale') return handedBack(task, 0);
  if (outcome.verdict === 'success') return settled(task, 'c', 0, resultOf(task, now_ms, outcome));
  const planned_ms = delays_ms[task.attempt - task.recoveries - 1];
  const given_up = outcome.verdict === 'final' && outcome.status_code !== GONE;
  if (given_up || planned_ms === undefined) return settled(task, 'f', 0, resultOf(task, now_ms, outcome));
  const delay_ms = Math.round(Math.max(planned_ms * (1 - JITTER + 2 * JITTER * dice), outcome.retry_after_ms ?? 0));
  return settled(task, 'r', delay_ms, resultOf(task, now_ms, outcome, Math.round(now_ms + delay_ms)));
}

const GONE = 410;

/** Of the delays between the tries of a notification. */
const JITTER = 0.1;

/** It was not sent, as where its process ended before, or (`s`) its process ended while it was: it starts again, uncounted. */
export function handedBack({ flight, index }: Claimed, delay_ms: number, verdict: 'b' | 's' = 'b'): Settlement {
  return { flight, index, verdict, delay_ms, result: '' };
}

function settled({ flight, index }: Claimed, verdict: Settlement['verdict'], delay_ms: number, result: StoredResult): Settlement {
  return { flight, index, verdict, delay_ms: Math.round(delay_ms), result: encodeResult(result) };
}

interface Told {
  status_code: number | null;
  duration_ms: number | null;
  excerpt: string | null;
  error: { code: string; message: string } | null;
}

function resultOf(
  task: Claimed,
  now_ms: number,
  { status_code, duration_ms, error, excerpt }: Told,
  next_ms: number | null = null,
): StoredResult {
  const { attempt, recoveries } = task;
  return [Math.round(now_ms), attempt, recoveries, status_code, duration_ms, error?.code ?? null, error?.message ?? null, excerpt, next_ms];
}

/** The settlement of a notification whose batch is gone. */
export function settlementOfLost(task: Claimed, now_ms: number): Settlement {
  const error = { code: 'batch_gone', message: 'The batch was deleted.' };
  return settled(task, 'f', 0, resultOf(task, now_ms, { status_code: null, duration_ms: null, excerpt: null, error }));
}

/** The settlement of a task that came too late to start. */
export function settlementOfExpired({ flight, index, attempt, recoveries }: Claimed, now_ms: number): Settlement {
  const result = encodeResult([Math.round(now_ms), attempt - 1, recoveries, null, null, EXPIRED.code, EXPIRED.message]);
  return { flight, index, verdict: flight.limit === null ? 'f' : 'u', delay_ms: 0, result };
}

/** Milliseconds before retry number `failures` (1 = the first), within [d/2, d] of the policy's delay d. */
export function backoffMs(spec: CallSpec, failures: number, dice: number): number {
  const { backoff, delay, max_delay } = spec.retry;
  const factor = backoff === 'exponential' ? 2 ** (failures - 1) : backoff === 'linear' ? failures : 1;
  const delay_ms = Math.min(delay * factor, max_delay) * 1000;
  return Math.round(delay_ms * (0.5 + dice / 2));
}

/** As JSON.stringify would, for half the time. */
function encodeResult(result: StoredResult): string {
  let length = result.length;
  while (length > 5 && (result[length - 1] ?? null) === null) length -= 1;
  let json = `[${result[0]}`;
  for (let i = 1; i < length; i++) {
    const value = result[i] ?? null;
    json += typeof value === 'string' ? `,${JSON.stringify(value)}` : `,${value}`;
  }
  return `${json}]`;
}
