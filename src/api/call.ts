// What an endpoint is: plain data in, plain data out. No request, no response, no socket reaches this room.

import type { Fault } from '../base/errors.ts';
import type { TraceContext } from '../base/trace-context.ts';
import type { StreamGrant } from '../streams/messages.ts';

/** One authenticated request whose headers, path, query and body were checked. */
export interface Call {
  /** Name of the account, as people chose it; never part of a key. */
  account: string;
  /** Key-safe name of the account. */
  account_id: string;
  /** Path parameters, decoded; resource ids among them are well-formed. */
  params: Record<string, string>;
  /** Query parameters by the route's schema, with its defaults; `{}` where it has none. */
  query: Record<string, unknown>;
  /** The body as parsed by schema/json (payloads are RawJson); null where the route takes none or reads it itself, and before it was read. */
  body: unknown;
  /** The bytes of the body. */
  raw_body: Buffer | null;
  /** What comes of a body of one task a line, piece by piece, null at its end; it rejects where its client is gone. null: the body is none. */
  lines: (() => Promise<Buffer | null>) | null;
  /** Faults of query and headers, for an endpoint that reads its body itself: whether that is JSON at all comes first. */
  head_faults: readonly Fault[];
  request_id: string;
  /** Only on POST. */
  idempotency_key: string | null;
  /** The trace that the request belongs to: it stays with the tasks that it makes. */
  trace: TraceContext | null;
  /** Stands for the token of who opens a stream: `account` and `account_id` are empty then. */
  ticket: string | null;
  /** Hash of the caller's token, null where that always holds, and where a ticket stands for it. */
  token: string | null;
  /** When the request arrived, by this process's clock. */
  now_ms: number;
  /** Whether nobody waits for the answer any more, or for the rest of it. */
  abandoned: () => boolean;
}

/** One row of an API limit as it stood after this request: becomes `RateLimit-Policy` and `RateLimit`. */
export interface QuotaVerdict {
  granted: boolean;
  /** Name of the policy: `batch-create`. */
  policy: string;
  limit: number;
  window_s: number;
  /** Requests left in the window. */
  remaining: number;
  /** Whole seconds until more are left (refused: until one is). */
  reset_s: number;
}

export interface Answer {
  /** Default: the status of the route. */
  status?: number;
  /** A Buffer is ready JSON, sent as it is. */
  body: unknown | Buffer;
  headers?: Record<string, string>;
  /** For endpoints that decide their limit in the same step as their work; not granted = the answer is 429. */
  quota?: QuotaVerdict;
  /** The answer is these blocks, together what the route answers with, made as they are read; where that fails the answer is cut. */
  blocks?: AsyncIterable<Buffer>;
  /** The answer is this stream. */
  stream?: { account_id: string; grant: StreamGrant; token: string | null };
}

/** Refuses by throwing an ApiError; anything else thrown is a bug or a dead dependency. */
export type Handler = (call: Call) => Promise<Answer>;

export const HANDLERS = [
  'createBatch',
  'listBatches',
  'getBatch',
  'addTasks',
  'cancelBatch',
  'releaseBatch',
  'retryBatch',
  'deleteBatch',
  'listNotifications',
  'redeliverNotification',
  'listBatchTasks',
  'getBatchResults',
  'createStreamTicket',
  'streamBatch',
  'streamBatchEvents',
  'createTask',
  'getTask',
  'cancelTask',
  'retryTask',
  'createLimiter',
  'listLimiters',
  'getLimiter',
  'updateLimiter',
  'deleteLimiter',
  'getLimiterUsage',
  'pauseLimiter',
  'resumeLimiter',
  'resetLimiter',
  'createSchedule',
  'listSchedules',
  'getSchedule',
  'patchSchedule',
  'deleteSchedule',
  'listScheduleTasks',
  'previewSchedule',
  'previewCron',
  'triggerSchedule',
  'getSigningSecret',
  'rotateSigningSecret',
] as const;

export type HandlerName = (typeof HANDLERS)[number];

export type Api = Record<HandlerName, Handler> & {
  /**
   * Throws the 404 of a resource that the path names, so that it comes before 429, 413 and 400. Runs after authentication
   * and before anything is said about the body (`call.body` is null); for an endpoint without one, only where the request
   * has another fault. What it returns is the limit that the request has used, where its work would have told.
   */
  precheck?: Partial<Record<HandlerName, (call: Call) => Promise<void> | Promise<QuotaVerdict | null>>>;
};
