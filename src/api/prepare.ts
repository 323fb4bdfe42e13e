// What is done with the body of a create or an add before Redis is asked: read, checked, cut into segments. Pure, and all
// that goes in and comes out is plain data, so that a large body is prepared in a worker thread and a small one right here.
import { createHash } from 'node:crypto';
import { ApiError, type ErrorName, type Fault } from '../base/errors.ts';
import { DEFAULT_EXPIRATION_H } from '../base/limits.ts';
import type { TraceContext } from '../base/trace-context.ts';
import type { EgressPolicy } from '../outbound/addresses.ts';
import { type BodyCheck, checkBatchCreate, checkTasksAdd, type Rejected, rejectedAmong, rejectedTasks } from '../schema/batch-check.ts';
import { FAULTS_MAX } from '../schema/faults.ts';
import { BODY_JSON, parseJson } from '../schema/json.ts';
import type { NotificationEvent } from '../schema/notifications.ts';
import type { BatchCreate, Notifications, RejectedTask, TaskInput, TasksAdd } from '../schema/types.gen.ts';
import type { StagePlace } from '../store/batches.ts';
import { type EncodedTasks, encodeAdded, encodeTasks, memoryOf } from '../store/encoded.ts';
import { encodeTargets, type NoteTarget } from '../store/notes.ts';
import { type Intake, notAllowed, originOf, takeIn, targetFault, traceFields } from './intake.ts';
import { isBlank } from './line-source.ts';
import type { BatchDoc } from './present.ts';
import type { LimitersByName } from './resolve.ts';

export interface PrepareRequest {
  /** `lines`: an add whose body is one task a line. */
  what: 'create' | 'add' | 'lines';
  body: Uint8Array;
  /** Of lines: the number of the first one. */
  first_line?: number;
  /** Of lines: those that are not valid are left out. */
  partial?: boolean;
  /** When the request arrived. */
  now_ms: number;
  trace: TraceContext | null;
  /** With the body it makes the fingerprint of the request; null where none is wanted. */
  print_head: string | null;
  /** Hashes of task keys that the batch is known to have. */
  known_keys: readonly string[];
  /** Limiters by the names that were found in the body; see resolve.ts. */
  limiters: LimitersByName;
  /** Where segments may be written already by a thread that has Redis; null: nowhere. */
  stage: StagePlace | null;
}

/** Where the preparation stopped: no JSON, not as the schema says, or with a target or limiter that cannot be. */
export type Stage = 'json' | 'check' | 'targets';

export interface Refusal {
  kind: 'refused';
  stage: Stage;
  row: ErrorName;
  details: Record<string, unknown>;
  message: string;
  /** Of lines: the number of the first one that is at fault. */
  line?: number;
}

export interface Ready {
  kind: 'ready';
  tasks: EncodedTasks;
  /** Idempotency keys of the tasks, hashed. */
  task_keys: string[];
  /** The latest execute_after, 0 where none. */
  latest_ms: number;
  /** What the answer says of tasks that were left out: members of a JSON object, each with a comma in front. */
  left_out: Uint8Array;
  /** Of lines that were left out, what is wrong with them; `index` is the number of the line. */
  bad_lines: RejectedTask[];
  /** Tasks that were left out for a key that another has. */
  duplicates: number;
  /** Of a create: what is stored besides tasks, whether the expiry follows them, and which notifications are sent. */
  batch: { doc: BatchDoc; movable: boolean; notify: string } | null;
  /** The body once more, where it may be needed: some of its keys may turn out to be in the batch. */
  body: Uint8Array | null;
}

/** Tasks name limiters that nobody looked up: prepare it again with them. */
export interface NamesMissing {
  kind: 'names';
  names: string[];
  body: Uint8Array;
}

export interface Prepared {
  /** '' where none was wanted. */
  print: string;
  outcome: Ready | Refusal | NamesMissing;
}

/** Never throws for what a caller sent. */
export function prepare(request: PrepareRequest, policy: EgressPolicy): Prepared {
  const body = Buffer.from(request.body.buffer, request.body.byteOffset, request.body.byteLength);
  const print = request.print_head === null ? '' : createHash('sha256').update(request.print_head).update(body).digest('base64url');
  if (request.what === 'lines') return { print, outcome: prepareLines(request, body, policy) };
  const parsed = parseJson(body, BODY_JSON);
  if (!parsed.ok) return { print, outcome: refused('json', new ApiError('invalid_json', {}, { message: parsed.message })) };
  const outcome = request.what === 'create' ? prepareCreate(request, parsed.value, policy) : prepareAdd(request, parsed.value, policy);
  return { print, outcome };
}

/** Whether the body is part of what came out. */
export function keepsBody({ outcome }: Prepared): boolean {
  return outcome.kind !== 'refused' && outcome.body !== null;
}

/** The memory that `prepared` may take along to another thread. */
export function memoryOfPrepared({ outcome }: Prepared): ArrayBuffer[] {
  if (outcome.kind === 'refused') return [];
  const body = outcome.body?.buffer;
  const tasks = outcome.kind === 'ready' ? memoryOf(outcome.tasks) : [];
  return body instanceof ArrayBuffer ? [...tasks, body] : tasks;
}

function refused(stage: Stage, { row, details, message }: ApiError): Refusal {
  return { kind: 'refused', stage, row, details, message };
}

function prepareCreate(request: PrepareRequest, value: unknown, policy: EgressPolicy): Prepared['outcome'] {
  const checked: BodyCheck<BatchCreate> = checkBatchCreate(value, request.now_ms);
  if (checked.kind === 'refused') return notValid(checked.faults);
  const body = checked.value;
  const notifications = body.notifications ?? {};
  for (const [event, webhook] of Object.entries(notifications)) {
    const fault = targetFault(webhook.url, `/notifications/${event}/url`, policy);
    if (fault !== null) return refused('targets', notAllowed(fault));
  }
  const { atomic = true, expiration, hold = false } = body.options ?? {};
  const doc: BatchDoc = {
    ...(body.description === undefined ? {} : { description: body.description }),
    notifications,
    options: { atomic, expiration: expiration ?? DEFAULT_EXPIRATION_H, hold },
    ...(body.labels === undefined ? {} : { labels: body.labels }),
    ...traceFields(request.trace),
  };
  const batch = { doc, movable: expiration === undefined, notify: notifyOf(notifications) };
  return cut(request, body.tasks, checked.rejected, !atomic, policy, batch);
}

/** Which notifications a batch sends, as it is stored; '' for none. */
export function notifyOf(notifications: Notifications): string {
  const { on_progress } = notifications;
  const targets: NoteTarget[] = Object.entries(notifications).map(([event, { url }]) => ({
    event: event as NotificationEvent,
    origin: originOf(url).hash,
    min_interval_ms: event === 'on_progress' ? (on_progress?.min_interval ?? 0) * 1000 : 0,
  }));
  return encodeTargets(targets);
}

function prepareAdd(request: PrepareRequest, value: unknown, policy: EgressPolicy): Prepared['outcome'] {
  const checked: BodyCheck<TasksAdd> = checkTasksAdd(value, request.now_ms);
  if (checked.kind === 'refused') return notValid(checked.faults);
  return cut(request, checked.value.tasks, checked.rejected, checked.value.atomic === false, policy, null);
}

const NEWLINE = 0x0a;

function prepareLines(request: PrepareRequest, body: Buffer, policy: EgressPolicy): Prepared['outcome'] {
  const tasks: unknown[] = [];
  const numbers: number[] = [];
  const { partial = false } = request;
  const bad: RejectedTask[] = [];
  for (let from = 0, line = request.first_line ?? 0; from < body.length; line++) {
    const newline = body.indexOf(NEWLINE, from);
    const end = newline < 0 ? body.length : newline;
    const text = body.subarray(from, end);
    from = end + 1;
    const parsed = parseJson(text, BODY_JSON);
    if (parsed.ok) {
      tasks.push(parsed.value);
      numbers.push(line);
    } else if (!isBlank(text)) {
      const message = parsed.message.replace('The body', 'The line');
      if (partial) {
        bad.push({ index: line, message, path: `/${line}` });
        continue;
      }
      return { ...refused('json', new ApiError('invalid_json', { path: `/${line}` }, { message })), line };
    }
  }
  if (partial) return withoutBad(request, tasks, numbers, bad, policy);
  const outcome = prepareAdd(request, { tasks }, policy);
  return outcome.kind === 'refused' ? inLines(outcome, numbers) : outcome;
}

/** The good ones of some lines, and what is wrong with the others; `bad` are no JSON at all. */
function withoutBad(
  request: PrepareRequest,
  tasks: readonly unknown[],
  numbers: readonly number[],
  bad: readonly RejectedTask[],
  policy: EgressPolicy,
): Prepared['outcome'] {
  const outcome = cut(request, tasks as readonly TaskInput[], rejectedAmong(tasks, request.now_ms), true, policy, null);
  if (outcome.kind !== 'ready') return outcome;
  const placed = outcome.bad_lines.map(({ index, message, path }) => {
    const number = numbers[index] ?? 0;
    return { index: number, message, path: path.replace(/^\/tasks\/\d+/, `/${number}`) };
  });
  return { ...outcome, bad_lines: [...placed, ...bad].sort((a, b) => a.index - b.index) };
}

/** The refusal of a body, with lines for tasks. */
function inLines(refusal: Refusal, numbers: readonly number[]): Refusal {
  let line = Number.POSITIVE_INFINITY;
  const placed = (path: string): string =>
    path.replace(/^\/tasks\/(\d+)/, (_, index: string) => {
      const number = numbers[Number(index)] ?? 0;
      line = Math.min(line, number);
      return `/${number}`;
    });
  const { errors, path } = refusal.details as { errors?: readonly Fault[]; path?: string };
  const details = {
    ...refusal.details,
    ...(errors === undefined ? {} : { errors: errors.map((fault) => ({ ...fault, path: placed(fault.path) })) }),
    ...(path === undefined ? {} : { path: placed(path) }),
  };
  return { ...refusal, details, ...(line < Number.POSITIVE_INFINITY ? { line } : {}) };
}

function notValid(faults: readonly unknown[]): Refusal {
  return refused('check', new ApiError('validation_error', { errors: faults }));
}

function cut(
  request: PrepareRequest,
  inputs: readonly TaskInput[],
  rejected: readonly Rejected[],
  partial: boolean,
  policy: EgressPolicy,
  batch: Ready['batch'],
): Prepared['outcome'] {
  const { limiters } = request;
  const names = missingNames(inputs, rejected, limiters);
  if (names.length > 0) return { kind: 'names', names, body: request.body };
  let intake: Intake;
  try {
    const at_ms = batch === null ? request.now_ms : null;
    intake = takeIn(inputs, { policy, partial, rejected, known_keys: new Set(request.known_keys), limiters, at_ms, trace: request.trace });
  } catch (error) {
    if (error instanceof ApiError) return refused('targets', error);
    throw error;
  }
  const lines = request.what === 'lines';
  // Of lines it may be that others of them are good.
  if (!lines && intake.tasks.length === 0 && intake.duplicates === 0) {
    return notValid(intake.rejected.flatMap((one) => one.faults).slice(0, FAULTS_MAX));
  }
  return {
    kind: 'ready',
    tasks: batch === null ? encodeAdded(intake.tasks) : encodeTasks(intake.tasks),
    task_keys: intake.task_keys,
    latest_ms: intake.latest_ms,
    left_out: leftOut(intake, partial && !lines),
    bad_lines: lines ? rejectedTasks(intake.rejected) : [],
    duplicates: intake.duplicates,
    batch,
    body: batch === null && intake.task_keys.length > 0 ? request.body : null,
  };
}

/** Names of limiters that nobody looked up. What was rejected already may be no task at all. */
function missingNames(inputs: readonly TaskInput[], rejected: readonly Rejected[], limiters: LimitersByName): string[] {
  const left_out = new Set(rejected.map(({ index }) => index));
  const names = new Set<string>();
  for (const [index, task] of inputs.entries()) {
    if (left_out.has(index) || task.rate_limiter === undefined || limiters.has(task.rate_limiter)) continue;
    names.add(task.rate_limiter);
  }
  return [...names];
}

/** `errors` of an `atomic: false` request, and `duplicates` where there were any. */
function leftOut(intake: Intake, partial: boolean): Buffer {
  const errors = partial ? `,"errors":${JSON.stringify(rejectedTasks(intake.rejected))}` : '';
  const duplicates = intake.duplicates > 0 ? `,"duplicates":${intake.duplicates}` : '';
  return Buffer.from(errors + duplicates);
}
