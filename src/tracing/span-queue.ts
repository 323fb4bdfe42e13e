// Spans that have ended, on their way to the collector: some hundred at a time, one request at a time, a bounded number waiting.
// The library's own queue does the same, but does not tell how many it has dropped.
import type { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import type { ReadableSpan, SpanProcessor } from '@opentelemetry/sdk-trace';
import type { LimitedLog } from '../base/log.ts';
import { endsWithin } from '../base/timing.ts';
import type { SpanFate } from './attempts.ts';

/** Of one thread: about 8 MB. A collector that takes 100 ms for a request takes 10,000 spans a second of it. */
const WAITING_MAX = 8_192;
const TOGETHER_MAX = 1_024;
/** How long spans wait for company. */
const DELAY_MS = 1_000;

export class SpanQueue implements SpanProcessor {
  readonly #exporter: OTLPTraceExporter;
  readonly #counted: (fate: SpanFate, spans: number) => void;
  readonly #log: LimitedLog;
  #waiting: ReadableSpan[] = [];
  #timer: NodeJS.Timeout | null = null;
  #sending: Promise<void> | null = null;

  constructor(exporter: OTLPTraceExporter, counted: (fate: SpanFate, spans: number) => void, log: LimitedLog) {
    this.#exporter = exporter;
    this.#counted = counted;
    this.#log = log;
  }

  onStart(): void {}

  onEnd(span: ReadableSpan): void {
    if (this.#waiting.length >= WAITING_MAX) return this.#counted('dropped', 1);
    this.#waiting.push(span);
    if (this.#sending === null) this.#sendSoon();
  }

  forceFlush(): Promise<void> {
    return this.#sendAll();
  }

  async shutdown(): Promise<void> {
    await this.#sendAll();
    await this.#exporter.shutdown();
  }

  /** Sends what waits, and drops what cannot be sent in time. */
  async drain(ms_max: number): Promise<void> {
    if (!(await endsWithin(this.shutdown(), ms_max))) this.#counted('dropped', this.#waiting.splice(0).length);
  }

  #sendSoon(): void {
    if (this.#waiting.length >= TOGETHER_MAX) this.#send();
    else this.#timer ??= setTimeout(() => this.#send(), DELAY_MS).unref();
  }

  async #sendAll(): Promise<void> {
    while (this.#sending !== null || this.#waiting.length > 0) await (this.#sending ?? this.#send());
  }

  #send(): Promise<void> {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    const spans = this.#waiting.splice(0, TOGETHER_MAX);
    this.#sending = new Promise<void>((done) => {
      this.#exporter.export(spans, ({ error }) => {
        this.#counted(error === undefined ? 'exported' : 'failed', spans.length);
        if (error !== undefined) this.#log.warn({ err: error }, 'spans could not be sent to the collector');
        done();
      });
    }).then(() => {
      this.#sending = null;
      if (this.#waiting.length > 0) this.#sendSoon();
    });
    return this.#sending;
  }
}
