// Spans of API requests, where this process traces: OpenTelemetry is loaded when they start, and not before.
import { type Log, limitedLog } from './base/log.ts';
import type { Service } from './base/service.ts';
import { spanMeterOf } from './gauges.ts';
import type { RequestTracing } from './http/serve.ts';
import type { Metrics } from './metrics/registry.ts';
import type { Tracing } from './tracing/attempts.ts';
import type { TracingSettings } from './tracing/settings.ts';

/** For the spans of the last requests; a collector that takes longer does not hold up the end of the process. */
const STOP_MS_MAX = 2_000;

/** Started before the front door and stopped after it. */
export class RequestSpans implements Service {
  readonly name = 'request spans';
  readonly #settings: TracingSettings | null;
  readonly #version: string;
  readonly #metrics: Metrics;
  readonly #log: Log;
  #tracing: Tracing | null = null;

  /** `settings` are null where nothing is traced. */
  constructor(settings: TracingSettings | null, { version, metrics, log }: { version: string; metrics: Metrics; log: Log }) {
    this.#settings = settings;
    this.#version = version;
    this.#metrics = metrics;
    this.#log = log;
  }

  /** null: nothing is traced, or not started yet. */
  get tracing(): RequestTracing | null {
    return this.#tracing;
  }

  async start(): Promise<void> {
    if (this.#settings === null) return;
    const { openTracing } = await import('./tracing/spans.ts');
    const counted = spanMeterOf(this.#metrics);
    this.#tracing = openTracing({ settings: this.#settings, version: this.#version, counted, log: limitedLog(this.#log) });
  }

  async stop(deadline_ms: number): Promise<void> {
    await this.#tracing?.stop(Math.min(deadline_ms, STOP_MS_MAX));
  }
}
