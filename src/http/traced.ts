// A request of the API as its span tells it, where this process traces: by OpenTelemetry's conventions for HTTP servers.
import { readTraceContext } from '../base/trace-context.ts';
import type { RequestStart, TracedRequest, Tracing } from '../tracing/attempts.ts';
import type { HttpRequest } from './uws.ts';

export type RequestTracing = Pick<Tracing, 'requested'>;

/** Only before the request handler has returned. */
export function beginSpan(
  tracing: RequestTracing,
  req: HttpRequest,
  { route, request_id, started_ms }: Pick<RequestStart, 'route' | 'request_id' | 'started_ms'>,
): TracedRequest {
  return tracing.requested({
    method: req.getCaseSensitiveMethod(),
    route,
    path: req.getUrl(),
    // We speak HTTP only; whoever ends TLS in front of us says what the client spoke.
    scheme: req.getHeader('x-forwarded-proto').toLowerCase() === 'https' ? 'https' : 'http',
    request_id,
    context: readTraceContext(req.getHeader('traceparent'), req.getHeader('tracestate')),
    started_ms,
  });
}
