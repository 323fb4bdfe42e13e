// What is traced: attempts, of tasks and of notifications, and requests of the API. This file loads nothing of OpenTelemetry; spans.ts does.
import type { LimitedLog } from '../base/log.ts';
import type { TraceContext } from '../base/trace-context.ts';
import type { TracingSettings } from './settings.ts';

export type Attributes = Readonly<Record<string, string | number>>;

/** An attempt that begins. All times are of the clock of its partition, ms since the epoch, so that spans of several processes agree. */
export interface AttemptStart {
  /** Of the span around it. */
  name: 'task' | 'notification';
  /** Of the task or the batch: where that came without a trace, all attempts of the same id share one. */
  id: string;
  about: Attributes;
  attempt: number;
  /** That of the request that made it. */
  context: TraceContext | null;
  due_ms: number;
  /** The limiter it waited for, and until when. */
  limiter: { name: string; granted_ms: number } | null;
  started_ms: number;
  method: string;
  origin: string;
  path: string;
}

export interface AttemptEnd {
  ended_ms: number;
  status_code: number | null;
  /** null: it succeeded. */
  error: string | null;
}

/** An attempt that is traced. */
export interface TracedAttempt {
  /** For the target: its spans belong to that of the call. */
  context: TraceContext;
  ended(end: AttemptEnd): void;
}

/** A request of the API that begins. */
export interface RequestStart {
  /** As it came. */
  method: string;
  /** Parameters in braces; null: the path names nothing. */
  route: string | null;
  path: string;
  scheme: 'http' | 'https';
  request_id: string;
  context: TraceContext | null;
  /** By this process's clock. */
  started_ms: number;
}

export interface TracedRequest {
  /** For what the request makes. */
  context: TraceContext | null;
  /** `status` is null where the client went away before. */
  ended(status: number | null, duration_ms: number): void;
}

export interface Tracing {
  /** null: this one is not traced. */
  began(start: AttemptStart): TracedAttempt | null;
  requested(start: RequestStart): TracedRequest;
  /** Sends what is left, as long as it may take. */
  stop(ms_max: number): Promise<void>;
}

/** What became of spans: told to the collector; refused by it, or not sent in time; not kept, since too many wait. */
export type SpanFate = 'exported' | 'failed' | 'dropped';

export interface TracingDeps {
  settings: TracingSettings;
  /** Of this software. */
  version: string;
  counted(fate: SpanFate, spans: number): void;
  log: LimitedLog;
}

export type OpenTracing = (deps: TracingDeps) => Tracing;
