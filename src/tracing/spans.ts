// Spans by OpenTelemetry's own library:
//
//   POST /v1/batches   request ──▶ answer                                  one for each request of the API, child of the caller's span
//   ├ task               due ─────────────────────────────────▶ outcome    one for each attempt; later than the request as a rule
//   │ ├ limiter wait     due ──────▶ granted                               where the task names a limiter
//   │ ├ queue                        granted (else due) ──▶ start
//   │ └ POST                                               start ──▶ outcome    its id goes to the target
//   └ notification       due ─────────────────────────────────▶ outcome    one for each attempt of a batch's, with queue and POST
import { createHash } from 'node:crypto';
import { type Context, createTraceState, ROOT_CONTEXT, type Span, SpanKind, SpanStatusCode, type Tracer, trace } from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { defaultResource, detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources';
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  ParentBasedSampler,
  RandomIdGenerator,
  type Sampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import { NOT_SAMPLED, partsOf, type TraceContext } from '../base/trace-context.ts';
import type {
  AttemptEnd,
  AttemptStart,
  Attributes,
  OpenTracing,
  RequestStart,
  TracedAttempt,
  TracedRequest,
  Tracing,
  TracingDeps,
} from './attempts.ts';
import type { TracingSettings } from './settings.ts';
import { SpanQueue } from './span-queue.ts';

export const openTracing: OpenTracing = (deps) => new SpanTracing(deps);

class SpanTracing implements Tracing {
  readonly #queue: SpanQueue;
  readonly #tracer: Tracer;
  readonly #ids = new TraceIds();
  /** For what is made by a request that came without a trace and is not sampled: a share is one of requests, with all that they make. */
  readonly #unsampled: TraceContext | null;

  constructor({ settings, version, counted, log }: TracingDeps) {
    this.#unsampled = settings.sampler.endsWith('ratio') ? NOT_SAMPLED : null;
    this.#queue = new SpanQueue(new OTLPTraceExporter(), counted, log);
    const ours = resourceFromAttributes({ 'service.name': 'sluice', 'service.version': version });
    const provider = new TracerProvider({
      resource: defaultResource()
        .merge(ours)
        .merge(detectResources({ detectors: [envDetector] })),
      sampler: samplerOf(settings),
      idGenerator: this.#ids,
      spanProcessors: [this.#queue],
    });
    this.#tracer = provider.getTracer('sluice', version);
  }

  began(start: AttemptStart): TracedAttempt | null {
    const { name, id, about, attempt, context, due_ms, limiter, started_ms, method, origin, path } = start;
    if (context?.traceparent === '') return null;
    this.#ids.seed = id;
    // A clock that was set, or a time that is only about right, must not make a span end before it began.
    const begin_ms = Math.min(due_ms, started_ms);
    const options = { kind: SpanKind.CONSUMER, startTime: hrTime(begin_ms), attributes: { ...about, 'sluice.attempt': attempt } };
    const task = this.#tracer.startSpan(name, options, context === null ? ROOT_CONTEXT : parentOf(context));
    if (!task.isRecording()) return null;
    const inside = trace.setSpan(ROOT_CONTEXT, task);
    let ready_ms = begin_ms;
    if (limiter !== null) {
      ready_ms = Math.min(Math.max(limiter.granted_ms, begin_ms), started_ms);
      this.#tracer
        .startSpan('limiter wait', { startTime: hrTime(begin_ms), attributes: { 'sluice.rate_limiter': limiter.name } }, inside)
        .end(hrTime(ready_ms));
    }
    this.#tracer.startSpan('queue', { startTime: hrTime(ready_ms) }, inside).end(hrTime(started_ms));
    const call = this.#tracer.startSpan(
      method,
      { kind: SpanKind.CLIENT, startTime: hrTime(started_ms), attributes: callAttributes(method, origin, path, attempt) },
      inside,
    );
    return { context: contextOf(call, context), ended: (end) => ended(task, call, started_ms, end) };
  }

  requested(start: RequestStart): TracedRequest {
    const { method, route, context, started_ms } = start;
    const known = KNOWN_METHODS.has(method);
    this.#ids.seed = null;
    const span = this.#tracer.startSpan(
      `${known ? method : 'HTTP'}${route === null ? '' : ` ${route}`}`,
      { kind: SpanKind.SERVER, startTime: hrTime(started_ms), attributes: requestAttributes(start, known) },
      context === null ? ROOT_CONTEXT : parentOf(context),
    );
    if (!span.isRecording()) return { context: context ?? this.#unsampled, ended: () => {} };
    return {
      context: contextOf(span, context),
      ended: (status, duration_ms) => {
        if (status !== null) span.setAttribute('http.response.status_code', status);
        // Of a server a 4xx is no error: its caller's span says that it is.
        const error = status === null ? 'client_gone' : status >= 500 ? String(status) : null;
        if (error !== null) span.setAttribute('error.type', error).setStatus({ code: SpanStatusCode.ERROR });
        span.end(hrTime(started_ms + duration_ms));
      },
    };
  }

  stop(ms_max: number): Promise<void> {
    return this.#queue.drain(ms_max);
  }
}

/** Of the conventions; what else a client makes up must not become the name of a span. */
const KNOWN_METHODS = new Set(['CONNECT', 'DELETE', 'GET', 'HEAD', 'OPTIONS', 'PATCH', 'POST', 'PUT', 'TRACE']);
/** Of what a client may write as he likes. */
const TEXT_MAX = 256;

/** By the conventions for HTTP servers. The query may hold a ticket, so it is left out. */
function requestAttributes({ method, route, path, scheme, request_id }: RequestStart, known: boolean): Attributes {
  return {
    'http.request.method': known ? method : '_OTHER',
    ...(known ? {} : { 'http.request.method_original': method.slice(0, TEXT_MAX) }),
    ...(route === null ? {} : { 'http.route': route }),
    'url.path': path.slice(0, TEXT_MAX),
    'url.scheme': scheme,
    'sluice.request.id': request_id,
  };
}

function ended(task: Span, call: Span, started_ms: number, { ended_ms, status_code, error }: AttemptEnd): void {
  if (status_code !== null) call.setAttribute('http.response.status_code', status_code);
  if (error !== null) {
    call.setAttribute('error.type', error);
    for (const span of [call, task]) span.setStatus({ code: SpanStatusCode.ERROR, message: error });
  }
  const end = hrTime(Math.max(started_ms, ended_ms));
  call.end(end);
  task.end(end);
}

/** By the conventions for HTTP clients. What a query holds may be a secret, so it is left out. */
function callAttributes(method: string, origin: string, path: string, attempt: number): Attributes {
  const { hostname, port, protocol } = new URL(origin);
  return {
    'http.request.method': method,
    'server.address': hostname,
    'server.port': Number(port) || (protocol === 'https:' ? 443 : 80),
    'url.full': origin + path.replace(/\?.*$/s, ''),
    ...(attempt > 1 ? { 'http.request.resend_count': attempt - 1 } : {}),
  };
}

/** Seconds and nanoseconds: a number of milliseconds before the start of this process would be taken for something else. */
function hrTime(ms: number): [number, number] {
  const s = Math.floor(ms / 1000);
  return [s, Math.min(999_999_999, Math.round((ms - s * 1000) * 1_000_000))];
}

function parentOf({ traceparent, tracestate }: TraceContext): Context {
  const { trace_id, parent_id, flags } = partsOf(traceparent);
  return trace.setSpanContext(ROOT_CONTEXT, {
    traceId: trace_id,
    spanId: parent_id,
    traceFlags: Number.parseInt(flags, 16),
    isRemote: true,
    ...(tracestate === '' ? {} : { traceState: createTraceState(tracestate) }),
  });
}

/** What those behind a span are told: it is their parent, all else is as the caller had it. */
function contextOf(span: Span, given: TraceContext | null): TraceContext {
  const { traceId, spanId } = span.spanContext();
  const flags = given === null ? 1 : Number.parseInt(partsOf(given.traceparent).flags, 16) | 1;
  const traceparent = `00-${traceId}-${spanId}-${flags.toString(16).padStart(2, '0')}`;
  return { traceparent, tracestate: given?.tracestate ?? '' };
}

/** What came without a trace: all attempts of one task share one, also in different processes; a request has its own. */
class TraceIds extends RandomIdGenerator {
  /** null: any. */
  seed: string | null = null;
  readonly #any = new RandomIdGenerator();
  override readonly generateTraceId = (): string =>
    this.seed === null ? this.#any.generateTraceId() : createHash('sha256').update(this.seed).digest('hex').slice(0, 32);
}

function samplerOf({ sampler, ratio }: TracingSettings): Sampler {
  const root = sampler.replace('parentbased_', '');
  const plain =
    root === 'always_on' ? new AlwaysOnSampler() : root === 'always_off' ? new AlwaysOffSampler() : new TraceIdRatioBasedSampler(ratio);
  return root === sampler ? plain : new ParentBasedSampler({ root: plain });
}
