// What goes into this room and what comes out: one call, one outcome.
import type { FailureCode } from './failures.ts';

export type Method = 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'OPTIONS';

/** One HTTP request to make. Nothing in it is changed, and it may be shared between attempts. */
export interface OutboundCall {
  /** `URL.origin` of the target. */
  origin: string;
  /** Path and query, beginning with `/`. */
  path: string;
  method: Method;
  /** The caller's own headers, flat name, value pairs, validated when they were accepted. */
  headers: readonly string[];
  /** Sent for every method but GET and HEAD. */
  body: Buffer | null;
  /** Whose it is: those who wait for a connection to the same origin take turns. */
  account_id: string;
  /** The receiver's idempotency key: ASCII without a full stop, at most 64 characters, the same for every attempt. */
  webhook_id: string;
  attempt: number;
  /** For `X-Sluice-Batch-Id`; null sends none. */
  batch_id: string | null;
  /** For everything: waiting for a connection, connecting, sending, the whole answer. Counted from `call()`. */
  timeout_ms: number;
  /** One or two signing keys. Pass the same Buffer objects each time: prepared keys are remembered by identity. */
  secrets: readonly Buffer[];
  /**
   * Called right before the request is written: at most once, perhaps before `call()` returns. False: it may not be written any
   * more; the outcome is then `stale`, and the connection stays open.
   */
  sent?: (() => boolean) | undefined;
  /** Called when the request was written; at most once, after `sent`. */
  written?: (() => void) | undefined;
}

/**
 * `success`: the target took it (2xx). `retry`: it failed in a way that may pass. `final`: trying again is pointless or unwanted.
 * Where the process stopped (`shutdown`) or nothing was sent (`stale`), the verdict is `retry` and whoever hands the work back
 * decides not to count it.
 */
export type Verdict = 'success' | 'retry' | 'final';

export interface Outcome {
  verdict: Verdict;
  /** Null where no status line came. */
  status_code: number | null;
  /** Whole milliseconds from `call()` to the outcome. */
  duration_ms: number;
  /** Of these, in milliseconds, those since it was handed to an open connection: what the target itself took, and no wait for a connection. 0 where it was not. */
  sent_for_ms: number;
  /** Null exactly for `success`. The message never names an address that a name resolved to. */
  error: { code: FailureCode; message: string } | null;
  /** Up to 1 KiB of the answer where that is text. */
  excerpt: string | null;
  /** From `Retry-After` of an answer that was not a success, at most one hour. */
  retry_after_ms: number | null;
  /** From `X-Points-Used`, at most 1,000,000 of it. */
  points_used: number | null;
}

/** A call on its way. */
export interface RunningCall {
  /** Its outcome is decided. */
  readonly finished: boolean;
  /**
   * Ends the call now; `done` runs before this returns, unless the outcome was decided already.
   * Where the status of the answer is known, it is the outcome all the same: the target has done its work.
   */
  abort(reason: 'shutdown' | 'cancelled'): void;
}

/** Of the status line and all headers; an answer with more of them is an error. */
export const ANSWER_HEAD_BYTES_MAX = 16 * 1024;
/** Reads the answer to its end up to this many bytes; beyond, the outcome stands and the connection is closed. */
export const ANSWER_BYTES_MAX = 64 * 1024;
export const EXCERPT_BYTES_MAX = 1024;
export const RETRY_AFTER_MS_MAX = 3_600_000;
export const POINTS_USED_MAX = 1_000_000;
