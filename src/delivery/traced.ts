// An attempt, of a task or of a notification, as its spans tell it, where this process traces.
import { monotonicMs } from '../base/clock.ts';
import { ID_PREFIX, taskId } from '../base/id.ts';
import type { Outcome } from '../outbound/call.ts';
import type { Claimed } from '../store/claimed.ts';
import type { AttemptStart, Tracing } from '../tracing/attempts.ts';
import type { Notification } from './notification.ts';
import { type CallSpec, withTrace } from './spec.ts';

export interface TracedCall {
  /** Those of the call. */
  headers: readonly string[];
  ended(outcome: Outcome, now_ms: number): void;
}

/** `claimed_ms`: when it was claimed, monotonic. null: this one is not traced. */
export function tracedTask(tracing: Tracing | null, task: Claimed, spec: CallSpec, now_ms: number, claimed_ms: number): TracedCall | null {
  if (tracing === null) return null;
  const { flight, index, single, attempt, due_ms, granted_age_ms } = task;
  const id = taskId(flight.core, index);
  const granted_ms = now_ms - (granted_age_ms + monotonicMs() - claimed_ms);
  return tracedCall(tracing, spec, {
    name: 'task',
    id,
    about: { 'sluice.task.id': id, ...(single ? {} : { 'sluice.batch.id': ID_PREFIX.batch + flight.core }) },
    attempt,
    due_ms,
    limiter: flight.limit === null ? null : { name: spec.rate_limiter ?? '', granted_ms },
    started_ms: now_ms,
  });
}

/** The same of a notification: it goes on with the trace of its batch. */
export function tracedNotification(tracing: Tracing | null, task: Claimed, notification: Notification, now_ms: number): TracedCall | null {
  if (tracing === null) return null;
  const { batch_id, event, webhook_id } = notification;
  return tracedCall(tracing, notification, {
    name: 'notification',
    id: batch_id,
    about: { 'sluice.batch.id': batch_id, 'sluice.notification.id': webhook_id, 'sluice.notification.event': event },
    attempt: task.attempt,
    due_ms: task.due_ms,
    limiter: null,
    started_ms: now_ms,
  });
}

type CallOf = Pick<CallSpec, 'trace' | 'own_headers' | 'method' | 'origin' | 'path'>;

function tracedCall(
  tracing: Tracing,
  call: CallOf,
  start: Omit<AttemptStart, 'context' | 'method' | 'origin' | 'path'>,
): TracedCall | null {
  const { trace: context, own_headers, method, origin, path } = call;
  const span = tracing.began({ ...start, context, method, origin, path });
  if (span === null) return null;
  return {
    headers: withTrace(own_headers, span.context),
    ended: ({ status_code, error }, ended_ms) => span.ended({ ended_ms, status_code, error: error?.code ?? null }),
  };
}
