// From the outcome of a call to what becomes of its task. Pure: time and chance are arguments.
//
//   success                          completed
//   final                            failed
//   stopped by the shutdown          handed back, uncounted
//   429, 503 with Retry-After        handed back, uncounted, where its limiter closes for as long
//   retry, none left                 failed
//   retry, next start too late       failed, `expired`
//   retry                            again after the back-off, or after Retry-After where that is later
import type { Outcome } from '../outbound/call.ts';
import type { Claimed, Settlement } from '../store/partition.ts';
import type { CallSpec } from './spec.ts';

export interface Now {
  /** The partition's clock. */
  now_ms: number;
  /** In [0, 1). */
  dice: number;
}

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
];

const EXPIRED = { code: 'expired', message: 'valid_until passed before the task could start.' };

/** The settlement of an attempt that was made. */
export function settlementOf(task: Claimed, spec: CallSpec, outcome: Outcome, now: Now): Settlement {
  const { flight, index } = task;
  if (outcome.error?.code === 'shutdown') return { flight, index, verdict: 's', delay_ms: 0, result: '' };
  const settle = (verdict: Settlement['verdict'], delay_ms: number, error: { code: string; message: string } | null): Settlement => ({
    flight,
    index,
    verdict,
    delay_ms: Math.round(delay_ms),
    result: encodeResult([
      Math.round(now.now_ms),
      task.attempt,
      task.recoveries,
      outcome.status_code,
      outcome.duration_ms,
      error?.code ?? null,
      error?.message ?? null,
      outcome.excerpt,
    ]),
  });
  return { ...judged(task, spec, outcome, now, settle), ...pointsOf(task, outcome) };
}

type Settle = (verdict: Settlement['verdict'], delay_ms: number, error: { code: string; message: string } | null) => Settlement;

function judged(task: Claimed, spec: CallSpec, outcome: Outcome, { now_ms, dice }: Now, settle: Settle): Settlement {
  if (outcome.verdict === 'success') return settle('c', 0, null);
  const cool_ms = coolOf(task, outcome);
  if (cool_ms > 0) return { ...settle('k', 0, outcome.error), cool_ms };
  const failures = task.attempt - task.recoveries;
  if (outcome.verdict === 'final' || failures > spec.retry.max_retries) return settle('f', 0, outcome.error);
  const delay_ms = Math.max(backoffMs(spec, failures, dice), outcome.retry_after_ms ?? 0);
  if (spec.valid_until_ms !== null && now_ms + delay_ms > spec.valid_until_ms) return settle('f', 0, EXPIRED);
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

/** The settlement of a task that came too late to start. */
export function settlementOfExpired({ flight, index, attempt, recoveries }: Claimed, now_ms: number): Settlement {
  const result = encodeResult([Math.round(now_ms), attempt - 1, recoveries, null, null, EXPIRED.code, EXPIRED.message]);
  return { flight, index, verdict: 'f', delay_ms: 0, result };
}

/** Milliseconds before retry number `failures` (1 = the first), within [d/2, d] of the policy's delay d. */
export function backoffMs(spec: CallSpec, failures: number, dice: number): number {
  const { backoff, delay, max_delay } = spec.retry;
  const factor = backoff === 'exponential' ? 2 ** (failures - 1) : backoff === 'linear' ? failures : 1;
  const delay_ms = Math.min(delay * factor, max_delay) * 1000;
  return Math.round(delay_ms * (0.5 + dice / 2));
}

function encodeResult(result: StoredResult): string {
  let length = result.length;
  while (length > 5 && (result[length - 1] ?? null) === null) length -= 1;
  return JSON.stringify(result.slice(0, length));
}
