// What goes out: status lines, header blocks and the error envelope, made once; written in one cork.
import type { QuotaVerdict } from '../api/call.ts';
import { type ApiError, ERRORS, wireCode } from '../base/errors.ts';
import type { HttpResponse } from './uws.ts';

/** One finished response, before it is written. */
export interface Reply {
  status: number;
  /** null: no body and no Content-Length (204). */
  body: string | Buffer | null;
  /** To HEAD: nobody knows how long the answer to GET is. */
  unsized?: boolean;
  /** Default: JSON. */
  type?: string;
  headers?: Record<string, string>;
}

export interface WriteOptions {
  /** Those of the reply, and what else the answer has. A Cache-Control among them stands in for `no-store`. */
  headers: Readonly<Record<string, string>>;
  request_id: string;
  /** HEAD: everything but the body. */
  head: boolean;
  /** Sends `Connection: close`, and closes once all is written. */
  close: boolean;
  /** Tells the client to close, but goes on swallowing what it still sends (for 10 s, or at 16 KB/s): a close would reset the answer away. */
  linger: boolean;
}

const STATUS_TEXT: Record<number, string> = {
  200: 'OK',
  201: 'Created',
  204: 'No Content',
  304: 'Not Modified',
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  409: 'Conflict',
  413: 'Payload Too Large',
  415: 'Unsupported Media Type',
  422: 'Unprocessable Entity',
  429: 'Too Many Requests',
  500: 'Internal Server Error',
  503: 'Service Unavailable',
};

const STATUS_LINE = new Map(Object.entries(STATUS_TEXT).map(([status, text]) => [Number(status), `${status} ${text}`]));

export const JSON_TYPE = 'application/json';
export const LINES_TYPE = 'application/x-ndjson';
export const EVENTS_TYPE = 'text/event-stream';
/** The value of Content-Type and the headers behind it, of which X-Request-Id is the last: one call into native code for all of them. */
const NO_SNIFF = '\r\nX-Content-Type-Options: nosniff';
const FIXED_HEADERS = `\r\nCache-Control: no-store${NO_SNIFF}`;
const JSON_HEADERS = JSON_TYPE + FIXED_HEADERS;
const NOT_IN_HEADERS = /[^\t\x20-\x7e]/g;

/** Writes a whole response; `res` is invalid afterwards. Returns the bytes of its body. */
export function write(res: HttpResponse, reply: Reply, options: WriteOptions): number {
  const { body } = reply;
  const { headers } = options;
  const bytes = body === null ? 0 : Buffer.byteLength(body);
  res.cork(() => {
    res.writeStatus(STATUS_LINE.get(reply.status) ?? String(reply.status));
    const cached = headers['Cache-Control'] !== undefined;
    if (body === null) {
      if (!cached) res.writeHeader('Cache-Control', 'no-store');
      res.writeHeader('X-Request-Id', options.request_id);
    } else {
      const fixed = reply.type === undefined && !cached ? JSON_HEADERS : (reply.type ?? JSON_TYPE) + (cached ? NO_SNIFF : FIXED_HEADERS);
      res.writeHeader('Content-Type', `${fixed}\r\nX-Request-Id: ${options.request_id}`);
    }
    for (const name in headers) res.writeHeader(name, (headers[name] ?? '').replace(NOT_IN_HEADERS, ' '));
    const without_body = options.head || body === null;
    if (options.linger || (options.close && without_body)) res.writeHeader('Connection', 'close');
    if (!without_body) return void res.end(body, options.close && !options.linger);
    // With arguments `endWithoutBody` leaves the response open in this build, so the length is ours, and the client closes.
    if (body !== null && reply.unsized !== true) res.writeHeader('Content-Length', String(bytes));
    res.endWithoutBody();
  });
  return options.head ? 0 : bytes;
}

/**
 * Writes the head of an answer of Server-Sent Events, and a first comment. Its connection is for nothing else: asked at the
 * end to close it, the native code would write this header into the body.
 */
export function beginEvents(res: HttpResponse, request_id: string): void {
  res.cork(() => {
    res
      .writeStatus('200 OK')
      .writeHeader('Content-Type', EVENTS_TYPE + FIXED_HEADERS)
      .writeHeader('X-Request-Id', request_id);
    // Reverse proxies that buffer would hold events back.
    res.writeHeader('X-Accel-Buffering', 'no').writeHeader('Connection', 'close').write(':\n\n');
  });
}

/** Writes the head of an answer whose length nobody knows yet. */
export function beginBlocks(res: HttpResponse, type: string, headers: Readonly<Record<string, string>>): void {
  res.cork(() => {
    res.writeStatus('200 OK').writeHeader('Content-Type', type + FIXED_HEADERS);
    for (const name in headers) res.writeHeader(name, headers[name] ?? '');
  });
}

/** The error envelope, with the headers that its status asks for. */
export function refusal(error: ApiError, headers: Record<string, string> = {}): Reply {
  const { status } = ERRORS[error.row];
  if (status === 401) headers['WWW-Authenticate'] = 'Bearer';
  if (status === 429 || status === 503) headers['Retry-After'] = String(Math.max(1, Math.ceil(error.retry_after_s ?? 1)));
  const body = JSON.stringify({ error: { code: wireCode(error.row), message: error.message, details: error.details } });
  return { status, body, headers };
}

/** draft-ietf-httpapi-ratelimit-headers-10. */
export function quotaHeaders(verdict: QuotaVerdict): Record<string, string> {
  return {
    'RateLimit-Policy': `"${verdict.policy}";q=${verdict.limit};w=${verdict.window_s}`,
    RateLimit: `"${verdict.policy}";r=${verdict.remaining};t=${Math.max(0, Math.ceil(verdict.reset_s))}`,
  };
}
