// From the tasks of a body to what is stored of them: heads, flows and due times; what must not be called is refused here.
import { createHash } from 'node:crypto';
import { breathe } from '../base/breath.ts';
import { ApiError, type Fault } from '../base/errors.ts';
import { originHash } from '../base/id.ts';
import { DEFAULT_TIMEOUT_S } from '../base/limits.ts';
import type { TraceContext } from '../base/trace-context.ts';
import type { TaskHead } from '../delivery/spec.ts';
import { checkTarget, type EgressPolicy, isBadPort } from '../outbound/addresses.ts';
import type { Rejected } from '../schema/batch-check.ts';
import { FAULTS_MAX } from '../schema/faults.ts';
import { timestampMs } from '../schema/formats.ts';
import { RawJson } from '../schema/json.ts';
import type { Target, TaskInput } from '../schema/types.gen.ts';
import type { NewTask } from '../store/records.ts';
import { type LimiterRefusal, type LimitersByName, limiterError, limiterRefusal } from './resolve.ts';

/** Tasks ready to be stored. */
export interface Intake {
  tasks: NewTask[];
  rejected: Rejected[];
  /** Idempotency keys of `tasks`, hashed. */
  task_keys: string[];
  /** Tasks left out for a key that another of the batch has. */
  duplicates: number;
  /** The latest execute_after, 0 where none. */
  latest_ms: number;
}

export interface IntakeOptions extends TaskContext {
  policy: EgressPolicy;
  /** Bad tasks are left out instead of refusing the request. */
  partial: boolean;
  rejected: readonly Rejected[];
  /** Hashes of keys that the batch has already. */
  known_keys: ReadonlySet<string>;
}

/** What tasks have of the request that brings them. */
export interface TaskContext {
  /** Of all names that tasks give. */
  limiters: LimitersByName;
  /** Stored as the tasks' creation time, where that is not their batch's. */
  at_ms: number | null;
  /** Stored with the tasks: it goes on with their calls. */
  trace: TraceContext | null;
}

/** Throws an ApiError for the first task that must not be called; with `partial` none may be left. */
export function takeIn(inputs: readonly TaskInput[], options: IntakeOptions): Intake {
  const out: Intake = { tasks: [], rejected: [...options.rejected], task_keys: [], duplicates: 0, latest_ms: 0 };
  const left_out = new Set(options.rejected.map(({ index }) => index));
  const writer = new TaskWriter(options);
  const keys = new Set<string>();
  for (const [index, input] of inputs.entries()) {
    if (left_out.has(index)) continue;
    breathe();
    const refusal = limiterRefusal(input, `/tasks/${index}`, options.limiters);
    if (refusal !== null && !options.partial) throw limiterError(refusal, limiterRefusals(inputs, options.limiters));
    const fault = refusal?.fault ?? targetFault(input.target, `/tasks/${index}/target`, options.policy);
    if (fault !== null) {
      if (!options.partial) throw notAllowed(fault);
      out.rejected.push({ index, faults: [fault] });
      continue;
    }
    if (input.idempotency_key !== undefined) {
      const hash = keyHash(input.idempotency_key);
      if (keys.has(hash) || options.known_keys.has(hash)) {
        out.duplicates += 1;
        continue;
      }
      keys.add(hash);
    }
    const task = writer.write(input);
    if (task.due_ms > out.latest_ms) out.latest_ms = task.due_ms;
    out.tasks.push(task);
  }
  out.task_keys = [...keys];
  out.rejected.sort((a, b) => a.index - b.index);
  return out;
}

/** A task that comes alone, by the same rules: its faults are named from itself on. Its idempotency key has no other beside it. */
export function takeOne(input: TaskInput, options: TaskContext & { policy: EgressPolicy }): NewTask {
  const refusal = limiterRefusal(input, '', options.limiters);
  if (refusal !== null) throw limiterError(refusal, [refusal]);
  const fault = targetFault(input.target, '/target', options.policy);
  if (fault !== null) throw notAllowed(fault);
  return newTask(input, options);
}

/** The idempotency keys that tasks carry, hashed. */
export function taskKeysOf(inputs: readonly TaskInput[]): string[] {
  return inputs.flatMap(({ idempotency_key }) => (idempotency_key === undefined ? [] : [keyHash(idempotency_key)]));
}

function keyHash(key: string): string {
  return createHash('sha256').update(key).digest('base64url').slice(0, 16);
}

function limiterRefusals(inputs: readonly TaskInput[], limiters: LimitersByName): LimiterRefusal[] {
  const found: LimiterRefusal[] = [];
  for (const [index, input] of inputs.entries()) {
    const refusal = limiterRefusal(input, `/tasks/${index}`, limiters);
    if (refusal !== null) found.push(refusal);
    if (found.length === FAULTS_MAX) break;
  }
  return found;
}

/** Whether a target may be called, as far as its URL tells; names are judged again by every address they resolve to. */
export function targetFault(target: Target, path: string, policy: EgressPolicy): Fault | null {
  const url = typeof target === 'string' ? target : target.url;
  const origin = originOf(url);
  let verdict = verdicts.get(origin.text);
  if (verdict === undefined || verdict.policy !== policy) {
    verdict = { policy, message: checkTarget(url, policy) === 'ok' ? null : notAllowedFor(url, policy) };
    if (verdicts.size >= REMEMBERED_MAX) verdicts.clear();
    verdicts.set(origin.text, verdict);
  }
  if (verdict.message === null) return null;
  return { path: typeof target === 'string' ? path : `${path}/url`, message: verdict.message };
}

function notAllowedFor(url: string, policy: EgressPolicy): string {
  return isBadPort(new URL(url).port, policy) ? 'has a port that no callback may go to' : 'points to a private or reserved address';
}

/** The refusal of a request with such a target. */
export function notAllowed({ path, message }: Fault): ApiError {
  return new ApiError('target_not_allowed', { path }, { message: `The target ${message}.` });
}

const REMEMBERED_MAX = 10_000;
const verdicts = new Map<string, { policy: EgressPolicy; message: string | null }>();
const origins = new Map<string, Origin>();

interface Origin {
  text: string;
  hash: string;
}

/** The URL that was asked for last: each is asked for twice, and neighbours often have the same. */
let last_url = '';
let last_origin: Origin = { text: '', hash: '' };

/** The normalized origin of a valid URL. Remembered by scheme and authority as written: few of these serve many URLs. */
export function originOf(url: string): Origin {
  if (url !== last_url) [last_origin, last_url] = [findOrigin(url), url];
  return last_origin;
}

function findOrigin(url: string): Origin {
  const end = url.slice(url.indexOf('://') + 3).search(/[/?#\\]/);
  const authority = end < 0 ? url : url.slice(0, url.indexOf('://') + 3 + end);
  let origin = origins.get(authority);
  if (origin === undefined) {
    const text = new URL(url).origin;
    origin = { text, hash: originHash(text) };
    if (origins.size >= REMEMBERED_MAX) origins.clear();
    origins.set(authority, origin);
  }
  return origin;
}

/** Writes tasks; neighbours that differ in nothing but their payload get the same bytes. */
class TaskWriter {
  readonly #context: TaskContext;
  #last: { input: TaskInput; task: NewTask } | null = null;

  constructor(context: TaskContext) {
    this.#context = context;
  }

  write(input: TaskInput): NewTask {
    const plain = isPlain(input);
    if (plain && this.#last !== null && same(this.#last.input, input)) return { ...this.#last.task, payload: payloadOf(input) };
    const task = newTask(input, this.#context);
    this.#last = plain ? { input, task } : null;
    return task;
  }
}

function newTask(input: TaskInput, context: TaskContext): NewTask {
  const { target } = input;
  return {
    head: Buffer.from(headOf(input, context)),
    payload: payloadOf(input),
    origin: originOf(typeof target === 'string' ? target : target.url).hash,
    timeout_s: Math.ceil(input.timeout ?? DEFAULT_TIMEOUT_S),
    due_ms: timeOf(input.execute_after),
    limit: limitOf(input, context.limiters),
  };
}

function payloadOf({ payload }: TaskInput): Buffer | null {
  return payload instanceof RawJson ? payload.bytes() : null;
}

/** Member by member: most tasks have few, and an object made for JSON.stringify takes twice as long. */
function headOf(input: TaskInput, { at_ms, trace }: TaskContext): string {
  let json = `{"target":${JSON.stringify(input.target)}`;
  for (const name of HEAD_MEMBERS) {
    const value = input[name];
    if (value !== undefined) json += `,"${name}":${JSON.stringify(value)}`;
  }
  if (at_ms !== null) json += `,"at":${at_ms}`;
  if (trace !== null) json += `,${JSON.stringify(traceFields(trace)).slice(1, -1)}`;
  return `${json}}`;
}

/** All but the payload, and the target, which every task has. */
const HEAD_MEMBERS = Object.keys({
  rate_limiter: true,
  points_cost: true,
  timeout: true,
  retry: true,
  idempotency_key: true,
  execute_after: true,
  valid_until: true,
} satisfies Record<HeadMember, true>) as HeadMember[];
type HeadMember = Exclude<keyof TaskInput, 'target' | 'payload'>;

/** A trace as it is stored in heads. */
export function traceFields(trace: TraceContext | null): Pick<TaskHead, 'traceparent' | 'tracestate'> {
  if (trace === null) return {};
  const { traceparent, tracestate } = trace;
  return tracestate === '' ? { traceparent } : { traceparent, tracestate };
}

/** What a task takes of its limiter; null where it names none. */
function limitOf({ rate_limiter, points_cost = 1, valid_until }: TaskInput, limiters: LimitersByName): NewTask['limit'] {
  if (rate_limiter === undefined) return null;
  const limiter = limiters.get(rate_limiter);
  if (!limiter) throw new Error('a limiter was not looked up');
  const { core, letter, cost_max } = limiter;
  return { name: rate_limiter, lane: core, kind: letter, cost: cost_max === null ? 1 : points_cost, valid_ms: timeOf(valid_until) };
}

/** A timestamp that was checked, in ms; 0 where there is none. */
export function timeOf(timestamp: string | undefined): number {
  return timestamp === undefined ? 0 : (timestampMs(timestamp) ?? 0);
}

/** Nothing but a target, a payload and the name of a limiter. */
function isPlain(input: TaskInput): boolean {
  for (const field in input) if (field !== 'target' && field !== 'payload' && field !== 'rate_limiter') return false;
  return typeof input.target === 'string' || input.target.headers === undefined;
}

/** Whether two plain inputs differ in their payload alone. */
function same(one: TaskInput, other: TaskInput): boolean {
  return one.rate_limiter === other.rate_limiter && sameTarget(one.target, other.target);
}

function sameTarget(a: Target, b: Target): boolean {
  if (a === b) return true;
  if (typeof a === 'string' || typeof b === 'string') return false;
  return a.url === b.url && a.method === b.method && Object.keys(a).length === Object.keys(b).length;
}
