// A collector of traces: takes OTLP over HTTP as JSON, as an OpenTelemetry Collector does, and keeps what it was sent.
import http from 'node:http';
import { after } from 'node:test';
import { until } from './redis.ts';

export interface CollectedSpan {
  name: string;
  trace_id: string;
  span_id: string;
  parent_id: string;
  kind: number;
  start_ms: number;
  end_ms: number;
  attributes: Record<string, unknown>;
  /** Not 2 where it went well. */
  status: number;
  /** What it says of where it comes from. */
  resource: Record<string, unknown>;
}

export interface Collector {
  readonly url: string;
  readonly spans: readonly CollectedSpan[];
  /** Headers of the requests so far. */
  readonly requests: readonly http.IncomingHttpHeaders[];
  /** Waits for so many spans of a trace; in the order of their starts. */
  trace(trace_id: string, count: number): Promise<CollectedSpan[]>;
  /** How later requests are answered; `hold`: not at all. */
  answers(status: number | 'hold'): void;
}

interface KeyValue {
  key: string;
  value: { stringValue?: string; intValue?: number | string; boolValue?: boolean };
}

interface OtlpSpan {
  name: string;
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  kind: number;
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  attributes: KeyValue[];
  status?: { code?: number };
}

interface OtlpRequest {
  resourceSpans: { resource: { attributes: KeyValue[] }; scopeSpans: { spans: OtlpSpan[] }[] }[];
}

const MS_MAX = 20_000;

/** Listens on a free port of this machine; closed by itself when the test, or the file, that made it ends. */
export async function startCollector(): Promise<Collector> {
  const spans: CollectedSpan[] = [];
  const requests: http.IncomingHttpHeaders[] = [];
  let status: number | 'hold' = 200;
  const server = http.createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.once('end', () => {
      requests.push(request.headers);
      if (status === 'hold') return;
      if (status === 200) spans.push(...read(JSON.parse(Buffer.concat(chunks).toString()) as OtlpRequest));
      response.writeHead(status, { 'content-type': 'application/json' }).end('{}');
    });
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  after(() => {
    server.close();
    server.closeAllConnections();
  });
  const address = server.address();
  const port = typeof address === 'object' ? address?.port : 0;
  const of = (trace_id: string): CollectedSpan[] => spans.filter((span) => span.trace_id === trace_id);
  return {
    url: `http://127.0.0.1:${port}`,
    spans,
    requests,
    async trace(trace_id, count) {
      await until(() => of(trace_id).length >= count, MS_MAX, `${count} spans of ${trace_id}`);
      return of(trace_id).toSorted((a, b) => a.start_ms - b.start_ms || b.end_ms - a.end_ms);
    },
    answers: (next) => {
      status = next;
    },
  };
}

function read({ resourceSpans }: OtlpRequest): CollectedSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans.flatMap(({ spans }) =>
      spans.map((span) => ({
        name: span.name,
        trace_id: span.traceId,
        span_id: span.spanId,
        parent_id: span.parentSpanId ?? '',
        kind: span.kind,
        start_ms: msOf(span.startTimeUnixNano),
        end_ms: msOf(span.endTimeUnixNano),
        attributes: valuesOf(span.attributes),
        status: span.status?.code ?? 0,
        resource: valuesOf(resource.attributes),
      })),
    ),
  );
}

function valuesOf(list: readonly KeyValue[]): Record<string, unknown> {
  return Object.fromEntries(
    list.map(({ key, value }) => [
      key,
      value.stringValue ?? value.boolValue ?? (value.intValue === undefined ? value : Number(value.intValue)),
    ]),
  );
}

/** Whole microseconds: a number has no digits for the nanoseconds of today, and would be off by some either way. */
function msOf(nanos: string): number {
  return Number(BigInt(nanos) / 1000n) / 1000;
}
