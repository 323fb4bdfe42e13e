// An attempt as its spans tell it, where this process traces.
import { monotonicMs } from '../base/clock.ts';
import { ID_PREFIX, taskId } from '../base/id.ts';
import type { Outcome } from '../outbound/call.ts';
import type { Claimed } from '../store/claimed.ts';
import type { Tracing } from '../tracing/attempts.ts';
import { type CallSpec, withTrace } from './spec.ts';

export interface TracedCall {
  /** Those of the call. */
  headers: readonly string[];
  ended(outcome: Outcome, now_ms: number): void;
}

/** `asked_ms`: when its claim was sent, monotonic. null: this one is not traced. */
export function traced(tracing: Tracing, task: Claimed, spec: CallSpec, now_ms: number, asked_ms: number): TracedCall | null {
  const { flight, index, single, attempt, due_ms, granted_age_ms } = task;
  const granted_ms = now_ms - (granted_age_ms + monotonicMs() - asked_ms);
  const span = tracing.began({
    task_id: taskId(flight.core, index),
    batch_id: single ? null : ID_PREFIX.batch + flight.core,
    attempt,
    context: spec.trace,
    due_ms,
    limiter: flight.limit === null ? null : { name: spec.rate_limiter ?? '', granted_ms },
    started_ms: now_ms,
    method: spec.method,
    origin: spec.origin,
    path: spec.path,
  });
  if (span === null) return null;
  return {
    headers: withTrace(spec.own_headers, span.context),
    ended: ({ status_code, error }, ended_ms) => span.ended({ ended_ms, status_code, error: error?.code ?? null }),
  };
}
