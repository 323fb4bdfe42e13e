// What a notification sends: a pure function of its record and of what its batch was created with, so it is the same, byte
// for byte, at every attempt. The payload is that of the service's contract, section "Notification payload".
import { ID_PREFIX, taskId } from '../base/id.ts';
import { NOTIFICATION_TIMEOUT_MS, SPECS_MAX } from '../base/limits.ts';
import type { TraceContext } from '../base/trace-context.ts';
import type { Method } from '../outbound/call.ts';
import type { NotificationEvent } from '../schema/notifications.ts';
import { decodeNote, type Note, webhookId } from '../store/notes.ts';
import type { Claimed } from '../store/partition.ts';
import { traceIn, withTrace } from './spec.ts';
import type { StoredResult } from './verdict.ts';
import { whereOf } from './where.ts';

/** One to be sent. */
export interface Notification {
  event: NotificationEvent;
  batch_id: string;
  account_id: string;
  webhook_id: string;
  origin: string;
  path: string;
  method: Method;
  /** Flat name, value pairs: what the batch gave, and with it the trace of its request, unless it names one. */
  own_headers: readonly string[];
  headers: readonly string[];
  trace: TraceContext | null;
  timeout_ms: number;
  body: Buffer;
  /** When what it tells of happened, by the partition's clock. */
  at_ms: number;
}

type Webhook = Pick<Notification, 'origin' | 'path' | 'method' | 'own_headers' | 'headers' | 'trace'>;
type Webhooks = ReadonlyMap<string, Webhook>;

/** By batch: its document never changes. */
const known = new Map<string, Webhooks>();

/** Null where there is nothing to send it for: its batch is gone. */
export function notificationOf(task: Claimed): Notification | null {
  const { of, payload } = task;
  if (of === null || of.doc === null || payload === null) return null;
  const note = decodeNote(payload);
  const webhook = webhooksOf(of.core, of.doc).get(note.event);
  if (webhook === undefined) return null;
  const batch_id = ID_PREFIX.batch + of.core;
  return {
    ...webhook,
    event: note.event,
    batch_id,
    account_id: task.account_id,
    webhook_id: webhookId(batch_id, note, task.index),
    timeout_ms: NOTIFICATION_TIMEOUT_MS,
    body: Buffer.from(JSON.stringify(payloadOf(note, of.core, of.created_ms))),
    at_ms: note.at_ms,
  };
}

/** The JSON that is sent. */
export function payloadOf(note: Note, core: string, created_ms: number): object {
  const { event, status, total, completed, failed, cancelled } = note;
  return {
    event,
    batch: {
      id: ID_PREFIX.batch + core,
      status,
      stats: { total, pending: total - completed - failed - cancelled, completed, failed, ...(cancelled > 0 ? { cancelled } : {}) },
      created_at: timestamp(created_ms),
      completed_at: note.finished_ms === null ? null : timestamp(note.finished_ms),
      completion_rate: total === 0 ? 0 : Math.round((completed / total) * 10_000) / 100,
    },
    ...(note.failure === null ? {} : { first_failure: failureOf(note.failure, core, note.at_ms) }),
    timestamp: timestamp(note.at_ms),
  };
}

function failureOf({ index, result }: NonNullable<Note['failure']>, core: string, at_ms: number): object {
  const [failed_ms = at_ms, , , , , code, message] = (result === '' ? [] : JSON.parse(result)) as Partial<StoredResult>;
  return { task_id: taskId(core, index), error: message || code || 'The task failed.', failed_at: timestamp(failed_ms) };
}

function webhooksOf(core: string, doc: string): Webhooks {
  let webhooks = known.get(core);
  if (webhooks === undefined) {
    webhooks = readWebhooks(doc);
    if (known.size >= SPECS_MAX) known.clear();
    known.set(core, webhooks);
  }
  return webhooks;
}

function readWebhooks(doc: string): Webhooks {
  const { notifications, ...rest } = JSON.parse(doc) as {
    notifications: Record<string, { url: string; method?: Method; headers?: Record<string, string> }>;
    traceparent?: string;
    tracestate?: string;
  };
  const trace = traceIn(rest);
  return new Map(
    Object.entries(notifications).map(([event, { url: text, method = 'POST', headers = {} }]) => {
      const { origin, path } = whereOf(text);
      const own_headers = Object.entries(headers).flat();
      return [
        event,
        {
          origin,
          path,
          method,
          own_headers,
          headers: withTrace(own_headers, trace),
          trace,
        },
      ];
    }),
  );
}

function timestamp(ms: number): string {
  return new Date(ms).toISOString();
}
