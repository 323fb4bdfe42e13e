// What is traced of an attempt. This file loads nothing of OpenTelemetry; spans.ts does.
import type { LimitedLog } from '../base/log.ts';
import type { TraceContext } from '../base/trace-context.ts';
import type { TracingSettings } from './settings.ts';

/** An attempt that begins. All times are of the clock of its partition, ms since the epoch, so that spans of several processes agree. */
export interface AttemptStart {
  task_id: string;
  /** null: a single task. */
  batch_id: string | null;
  attempt: number;
  /** That of the request that made the task. */
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

export interface Tracing {
  /** null: this one is not traced. */
  began(start: AttemptStart): TracedAttempt | null;
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
