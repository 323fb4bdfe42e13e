// From what is stored to what a caller sees.
import { ID_PREFIX, taskId } from '../base/id.ts';
import type {
  Batch,
  BatchListItem,
  BatchOptions,
  BatchStats,
  Labels,
  Notifications,
  StreamProgress,
  StreamTaskEnd,
  Target,
  TaskInput,
  TaskListItem,
  TaskOutcome,
  TaskResult,
} from '../schema/types.gen.ts';
import type { BatchRow, BatchStatus } from '../store/batches.ts';
import type { TaskRow } from '../store/task-rows.ts';

/** What a caller gave of a batch besides its tasks; stored as JSON. */
export interface BatchDoc {
  description?: string;
  notifications: Notifications;
  options: BatchOptions;
  labels?: Labels;
  /** Of a schedule's run: whose, and the time (ms) it is for. */
  schedule_id?: string;
  scheduled_for?: number;
  /** The trace of the request that made it: its notifications go on with it. */
  traceparent?: string;
  tracestate?: string;
}

export interface Counts {
  total: number;
  completed: number;
  failed: number;
  cancelled: number;
}

/** The stats of a batch; `pending` is what is left, so they always add up. */
export function stats({ total, completed, failed, cancelled }: Counts): BatchStats {
  return { total, pending: total - completed - failed - cancelled, completed, failed, cancelled };
}

/** Completed of all tasks in percent, with two decimals. */
export function completionRate({ total, completed }: Counts): number {
  return total === 0 ? 0 : Math.round((completed / total) * 10_000) / 100;
}

/** `2026-01-31T09:00:00.000Z`. */
export function timestamp(ms: number): string {
  if (ms !== last_ms) [last_ms, last_text] = [ms, new Date(ms).toISOString()];
  return last_text;
}

/** Most are of now, or of one batch. */
let last_ms = Number.NaN;
let last_text = '';

/** The answer to a change of a batch. */
export function changeView(core: string, status: BatchStatus, change: Counts & { updated_ms: number }): BatchChangeView {
  return {
    id: ID_PREFIX.batch + core,
    status,
    stats: stats(change),
    updated_at: timestamp(change.updated_ms),
    completion_rate: completionRate(change),
  };
}

export interface BatchChangeView {
  id: string;
  status: BatchStatus;
  stats: BatchStats;
  updated_at: string;
  completion_rate: number;
}

export function batchView(row: BatchRow, doc: BatchDoc): Batch {
  return {
    id: ID_PREFIX.batch + row.core,
    status: row.status ?? 'pending',
    ...(doc.description === undefined ? {} : { description: doc.description }),
    notifications: masked(doc.notifications),
    stats: stats(row),
    // What was asked for ends with a release.
    options: { ...doc.options, hold: row.held },
    ...(doc.labels === undefined ? {} : { labels: doc.labels }),
    created_at: timestamp(row.created_ms),
    updated_at: timestamp(row.updated_ms),
    completion_rate: completionRate(row),
  };
}

/** The same by the document that is stored with it. */
export function viewOf(row: BatchRow): Batch {
  return batchView(row, JSON.parse(row.doc) as BatchDoc);
}

let written: { row: BatchRow; json: Buffer } | null = null;

/** As JSON. Those who asked for a batch together have one row of it, and it is written once for all of them. */
export function batchBytes(row: BatchRow): Buffer {
  if (written?.row !== row) written = { row, json: Buffer.from(JSON.stringify(viewOf(row))) };
  return written.json;
}

/** How a batch stands, as its progress streams tell it: what `GET` of the batch shows of it now. */
export function progressView(row: BatchRow): Omit<StreamProgress, 'type' | 'seq'> {
  return {
    batch_id: ID_PREFIX.batch + row.core,
    status: row.status ?? 'pending',
    stats: stats(row),
    completion_rate: completionRate(row),
    timestamp: timestamp(row.updated_ms),
  };
}

/** A task that ended; `stored` as delivery/verdict.ts writes it, null where it never ran. */
export function taskEndView(
  core: string,
  { index, status, at_ms, with_batch }: { index: number; status: 'completed' | 'failed' | 'cancelled'; at_ms: number; with_batch: boolean },
  stored: string | null,
): StreamTaskEnd {
  const { attempts, ended_ms, result } = resultOf({ status, expired: with_batch && status === 'failed', result: stored });
  const { response_excerpt: _excerpt, ...told } = result ?? { status_code: null, duration_ms: 0, error: null };
  return {
    id: taskId(core, index),
    status,
    // What its last attempt came to is not how it ended.
    completed_at: timestamp(with_batch || status === 'cancelled' ? at_ms : (ended_ms ?? at_ms)),
    attempts,
    ...(result === null ? {} : { result: told }),
  };
}

export function batchItem(row: BatchRow, doc: BatchDoc): BatchListItem {
  const { notifications: _notifications, options: _options, ...item } = batchView(row, doc);
  return item;
}

/** Header values are write-only. */
export function masked(notifications: Notifications): Notifications {
  const out: Record<string, unknown> = {};
  for (const [event, webhook] of Object.entries(notifications)) out[event] = maskTarget(webhook as { headers?: Record<string, string> });
  return out as Notifications;
}

export function maskTarget<T>(target: T): T {
  if (typeof target !== 'object' || target === null || !('headers' in target) || typeof target.headers !== 'object') return target;
  return { ...target, headers: Object.fromEntries(Object.keys(target.headers ?? {}).map((name) => [name, '***'])) };
}

/** What is stored of a task besides its payload; see delivery/spec.ts. */
interface Head {
  target: Target;
  rate_limiter?: string | undefined;
  at?: number;
  /** The tick (ms) that it was made for. */
  for?: number;
}

const BATCH_EXPIRED = { code: 'batch_expired', message: 'The batch expired before this task could run.' };

type ShownTask = Omit<TaskListItem, 'batch_id'> & { batch_id: string | null };

/** A task as JSON bytes: its payload goes out as it came in. `batch_id` is null for a single task. */
export function taskBytes(row: TaskRow, batch: BatchRow): Buffer {
  return withPayload(JSON.stringify(taskView(row, batch, headOf(row))), row.payload);
}

/** A single task as it was just made from `input`: what taskBytes says of it, written down, since each of them is answered with it. */
export function newTaskBytes(
  { target, rate_limiter }: TaskInput,
  at_ms: number,
  core: string,
  index: number,
  payload: Buffer | null,
): Buffer {
  const limiter = rate_limiter === undefined ? '' : `,"rate_limiter":"${rate_limiter}"`;
  const json = `{"id":"${taskId(core, index)}","batch_id":null,"status":"queued","target":${JSON.stringify(maskTarget(target))},"created_at":"${timestamp(at_ms)}","attempts":0${limiter}}`;
  return withPayload(json, payload);
}

/** The same as listed under its schedule. */
export function scheduledTaskBytes(row: TaskRow, batch: BatchRow, schedule_id: string): Buffer {
  const { target, ...item } = taskView(row, batch, headOf(row));
  const listed = { ...item, schedule_id, target: typeof target === 'string' ? target : target.url };
  return withPayload(JSON.stringify(listed), row.payload);
}

/** `json` is an object. */
function withPayload(json: string, payload: Buffer | null): Buffer {
  if (payload === null) return Buffer.from(json);
  const length = Buffer.byteLength(json) - 1;
  const whole = Buffer.allocUnsafe(length + PAYLOAD.length + payload.length + 1);
  whole.write(json);
  whole.set(PAYLOAD, length);
  whole.set(payload, length + PAYLOAD.length);
  whole[whole.length - 1] = CLOSE_OBJECT;
  return whole;
}

const PAYLOAD = Buffer.from(',"payload":');
const CLOSE_OBJECT = 0x7d;

function headOf(row: TaskRow): Head {
  return JSON.parse(row.head.toString()) as Head;
}

/** `batch` null: a tray that was not read, since nothing of it shows. What is undefined is left out of the JSON. */
function taskView(row: Omit<TaskRow, 'head' | 'payload'>, batch: BatchRow | null, head: Head): Shown<ShownTask> {
  const { attempts, ended_ms, result } = resultOf(row);
  const scheduled_ms = head.for ?? (batch === null ? null : scheduledFor(batch));
  return {
    id: taskId(row.core, row.index),
    batch_id: batch === null || batch.status === null ? null : ID_PREFIX.batch + row.core,
    scheduled_for: scheduled_ms === null ? undefined : timestamp(scheduled_ms),
    status: row.status,
    target: maskTarget(head.target),
    created_at: timestamp(head.at ?? batch?.created_ms ?? 0),
    completed_at: row.status === 'completed' && ended_ms !== null ? timestamp(ended_ms) : undefined,
    attempts,
    rate_limiter: head.rate_limiter,
    result: result ?? undefined,
  };
}

/** About to become JSON, which leaves out what is undefined. */
type Shown<T> = { [K in keyof T]: T[K] | (undefined extends T[K] ? undefined : never) };

/** How a task ended; it must have. */
export function outcomeView(row: TaskRow, batch: BatchRow): TaskOutcome {
  const { at } = JSON.parse(row.head.toString()) as Head;
  const { attempts, ended_ms, result } = resultOf(row);
  return {
    id: taskId(row.core, row.index),
    index: row.index,
    // The others have not ended.
    status: row.status as TaskOutcome['status'],
    attempts,
    created_at: timestamp(at ?? batch.created_ms),
    ...(ended_ms === null ? {} : { completed_at: timestamp(ended_ms) }),
    ...(result === null ? {} : { result }),
  };
}

const scheduled = new WeakMap<BatchRow, number | null>();

/** The tick that a batch was made for; null where no schedule made it. Read once for all tasks of a page. */
function scheduledFor(batch: BatchRow): number | null {
  let ms = scheduled.get(batch);
  if (ms === undefined) {
    ms = batch.status === null ? null : ((JSON.parse(batch.doc) as BatchDoc).scheduled_for ?? null);
    scheduled.set(batch, ms);
  }
  return ms;
}

/** As delivery/verdict.ts writes it. */
type Stored = [number, number, number, number | null, number | null, string?, string?, string?, number?];

/** A stored result as it is shown, with when that attempt ended, the number of attempts and when the next one is due. */
export function lastAttempt(stored: string): { ended_ms: number; attempts: number; next_ms: number | null; result: TaskResult } {
  const [ended_ms, attempts, , status_code, duration_ms, code, message, excerpt, next_ms] = JSON.parse(stored) as Stored;
  const error = code ? { code, message: message ?? '' } : null;
  const result = { status_code, duration_ms: duration_ms ?? 0, error, ...(excerpt ? { response_excerpt: excerpt } : {}) };
  return { ended_ms, attempts, next_ms: next_ms ?? null, result };
}

function resultOf(row: Pick<TaskRow, 'status' | 'expired' | 'result'>): {
  attempts: number;
  ended_ms: number | null;
  result: TaskResult | null;
} {
  const running = row.status === 'processing' ? 1 : 0;
  if (row.result === null) {
    const result = row.expired ? { status_code: null, duration_ms: 0, error: BATCH_EXPIRED } : null;
    return { attempts: running, ended_ms: null, result };
  }
  const { ended_ms, attempts, result } = lastAttempt(row.result);
  return { attempts: attempts + running, ended_ms, result: row.expired ? { ...result, error: BATCH_EXPIRED } : result };
}
