// What a stored task says about its call, read once for all tasks that share a head.
import { originHash } from '../base/id.ts';
import { DEFAULT_RETRY, DEFAULT_TIMEOUT_S, SPECS_MAX } from '../base/limits.ts';
import type { TraceContext } from '../base/trace-context.ts';
import type { Method } from '../outbound/call.ts';
import { timestampMs } from '../schema/formats.ts';
import type { RetryPolicy, Target } from '../schema/types.gen.ts';
import type { Claimed } from '../store/claimed.ts';
import { whereOf } from './where.ts';

/** The head of a stored task: the task as given, without its payload. */
export interface TaskHead {
  target: Target;
  rate_limiter?: string;
  points_cost?: number;
  execute_after?: string;
  valid_until?: string;
  timeout?: number;
  retry?: RetryPolicy;
  idempotency_key?: string;
  /** When it was accepted (ms), where that differs from its batch's creation. */
  at?: number;
  /** The trace of the request that made it, where it had one. */
  traceparent?: string;
  tracestate?: string;
}

export interface CallSpec {
  origin: string;
  path: string;
  method: Method;
  /** Flat name, value pairs: the caller's own, and with them the trace that he sent us, unless they name one. */
  own_headers: readonly string[];
  headers: readonly string[];
  trace: TraceContext | null;
  rate_limiter: string | null;
  /** Total deadline of an attempt. */
  timeout_ms: number;
  retry: Required<RetryPolicy>;
  valid_until_ms: number | null;
}

/** At the end of a head, and no part of its call: single tasks that differ in nothing else share theirs. */
const ACCEPTED_AT = /,"at":\d+\}$/;

const NO_HEADERS: readonly string[] = [];

const by_head = new WeakMap<Buffer, CallSpec>();
const by_text = new Map<string, CallSpec>();

/** The call of a stored head. Heads are written by us, so one that cannot be read is a bug and throws. */
export function specOf(head: Buffer): CallSpec {
  const known = by_head.get(head);
  if (known !== undefined) return known;
  const text = head.toString('latin1').replace(ACCEPTED_AT, '');
  let spec = by_text.get(text);
  if (spec === undefined) {
    spec = readSpec(JSON.parse(head.toString()) as TaskHead);
    if (by_text.size >= SPECS_MAX) by_text.clear();
    by_text.set(text, spec);
  }
  // Nobody shares the bytes of a head with a time of its own.
  if (text.length === head.length) by_head.set(head, spec);
  return spec;
}

/** How many of these call each origin. Notifications, whose heads are others, are left out. */
export function callsByOrigin(tasks: Iterable<Pick<Claimed, 'of' | 'head'>>): Map<string, number> {
  const calls = new Map<string, number>();
  for (const { of, head } of tasks) {
    if (of !== null) continue;
    const { origin } = specOf(head);
    calls.set(origin, (calls.get(origin) ?? 0) + 1);
  }
  return calls;
}

/** Where a task is queued, as its head says: what scripts were told when it was made. */
export interface TaskPlace {
  /** Hash of its origin. */
  origin: string;
  timeout_s: number;
  due_ms: number;
  /** Name of its limiter, '' for none. */
  limiter: string;
  cost: number;
  valid_ms: number;
}

export function placeOf(head: Buffer): TaskPlace {
  const { target, timeout, execute_after, rate_limiter = '', points_cost = 1, valid_until } = JSON.parse(head.toString()) as TaskHead;
  return {
    origin: originHash(whereOf(typeof target === 'string' ? target : target.url).origin),
    timeout_s: Math.ceil(timeout ?? DEFAULT_TIMEOUT_S),
    due_ms: execute_after === undefined ? 0 : (timestampMs(execute_after) ?? 0),
    limiter: rate_limiter,
    cost: points_cost,
    valid_ms: valid_until === undefined ? 0 : Math.ceil(timestampMs(valid_until) ?? 0),
  };
}

function readSpec(head: TaskHead): CallSpec {
  const target = typeof head.target === 'string' ? { url: head.target } : head.target;
  const { origin, path } = whereOf(target.url);
  const own_headers = target.headers === undefined ? NO_HEADERS : Object.entries(target.headers).flat();
  const trace = traceIn(head);
  return {
    origin,
    path,
    method: target.method ?? 'POST',
    own_headers,
    headers: withTrace(own_headers, trace),
    trace,
    rate_limiter: head.rate_limiter ?? null,
    timeout_ms: Math.round((head.timeout ?? DEFAULT_TIMEOUT_S) * 1000),
    retry: head.retry === undefined ? DEFAULT_RETRY : { ...DEFAULT_RETRY, ...head.retry },
    valid_until_ms: head.valid_until === undefined ? null : timestampMs(head.valid_until),
  };
}

/** The trace that is stored with a task or a batch. */
export function traceIn({ traceparent, tracestate = '' }: Pick<TaskHead, 'traceparent' | 'tracestate'>): TraceContext | null {
  return traceparent === undefined ? null : { traceparent, tracestate };
}

/** A caller's own headers and a trace; one that they name stays as it is. */
export function withTrace(own: readonly string[], trace: TraceContext | null): readonly string[] {
  if (trace === null || trace.traceparent === '') return own;
  const names = own.filter((_, i) => i % 2 === 0).map((name) => name.toLowerCase());
  if (names.includes('traceparent')) return own;
  const { traceparent, tracestate } = trace;
  return [...own, 'traceparent', traceparent, ...(tracestate === '' || names.includes('tracestate') ? [] : ['tracestate', tracestate])];
}
