// One call from `call()` to its one outcome. It is at once the handle that the caller holds, the entry on the wheel of
// deadlines, and the handler that undici calls; nothing else is allocated for a call that goes well.
//
//   waiting ──▶ connecting ──▶ sent ──▶ answering ──▶ finished
//      slot null   not connected   connected   status > 0
//
// Any state may go to finished: by the answer, an error, the deadline or `abort`. Once the status line is here it alone
// decides: a 2xx whose body is cut, broken or dripping is a success, since the target has done its work.
//
// These are undici's older handler methods (onConnect, onHeaders, …): the newer ones are wrapped by undici 7 itself, at
// the price of two objects and a parsed copy of all headers for each answer.
import type { Client, Dispatcher } from 'undici';
import type { Clock } from '../base/clock.ts';
import type { Place } from '../base/line.ts';
import { type AnswerHead, excerptOf, readHead, retryAfterMs } from './answer.ts';
import { ANSWER_BYTES_MAX, EXCERPT_BYTES_MAX, type OutboundCall, type Outcome, type RunningCall, type Verdict } from './call.ts';
import type { Deadlines, Timed } from './deadlines.ts';
import { FAILURES, type FailureCode, failureOf } from './failures.ts';
import type { RequestWriter } from './request.ts';

/** Informational answers before the real one; undici reads them for ever. */
const INFORMATIONAL_MAX = 16;

/** What undici is told where it sends a request that has ended meanwhile; never seen by anyone. */
const ENDED = new Error('ended');

/** What every attempt of one `Outbound` shares. */
export interface Machine {
  /** Monotonic; for durations and deadlines. */
  monotonic: Clock;
  /** Wall clock; for signatures and dates. */
  now: Clock;
  deadlines: Deadlines;
  writer: RequestWriter;
}

/** The origin an attempt belongs to, as far as the attempt needs it. */
export interface Lane {
  readonly secure: boolean;
  /** The attempt is over: its place in the line or its connection is free; the connection is closed where it is not `reusable`. */
  leave(attempt: Attempt): void;
}

/** The connection an attempt is sent on. */
export interface Carrier {
  readonly client: Client;
  /** Reads at once what has come and waits to be read; null where nothing does. */
  readonly readNow: (() => void) | null;
  /** See interim.ts. */
  awaits_head: boolean;
  /** Nothing has come since the request. */
  silent: boolean;
}

export class Attempt implements RunningCall, Timed, AnswerHead, Dispatcher.DispatchHandler {
  readonly call: OutboundCall;
  /** The connection it was given; null while it waits for one and after the end. */
  slot: Carrier | null = null;
  /** Where it waits for one, or did; the lane's own. */
  place: Place<Attempt> | null = null;
  /** The connection may carry the next request. Not so where we ended this one, or where it could not be opened. */
  reusable = false;
  finished = false;
  /** Monotonic time of the call. */
  readonly begun_ms: number;
  /** Monotonic time of the outcome. */
  finished_ms = 0;

  due_tick = -1;
  due_prev: Timed | null = null;
  due_next: Timed | null = null;

  content_length = -1;
  encoded = false;
  textual = false;
  retry_after: string | null = null;
  retry_never = false;
  points_used: number | null = null;

  readonly #machine: Machine;
  readonly #lane: Lane;
  readonly #done: (outcome: Outcome) => void;
  /** An outcome found while our own caller is still on the stack waits for the next microtask. */
  #held = true;
  /** The request was handed to an open connection. */
  #connected = false;
  /** When that was. */
  #sent_ms = 0;
  #status = 0;
  #informational = 0;
  #body_bytes = 0;
  /** More body than this, and the rest is not waited for. */
  #body_bytes_max = ANSWER_BYTES_MAX;
  /** The excerpt of a body that came in one piece. */
  #text: string | null = null;
  /** The beginning of a body that comes in several. A copy: what undici hands out is a window on a 64 KiB buffer. */
  #kept: Buffer | null = null;
  #kept_bytes = 0;
  /** The body goes on behind what was kept, as far as we know. */
  #cut = true;

  constructor(machine: Machine, lane: Lane, call: OutboundCall, done: (outcome: Outcome) => void) {
    this.#machine = machine;
    this.#lane = lane;
    this.call = call;
    this.#done = done;
    this.begun_ms = machine.monotonic();
    machine.deadlines.add(this, this.begun_ms, call.timeout_ms);
  }

  /** `call()` is about to return: from here on the outcome may come at any moment. */
  letGo(): void {
    this.#held = false;
  }

  /** Hands the request to the connection. */
  send(slot: Carrier): void {
    this.slot = slot;
    slot.awaits_head = true;
    slot.silent = true;
    const held = this.#held;
    this.#held = true;
    this.#machine.writer.dispatch(slot.client, this.call, this);
    this.#held = held;
  }

  refuse(): void {
    this.#finish('final', 'target_blocked', FAILURES.target_blocked);
  }

  abort(reason: 'shutdown' | 'cancelled'): void {
    this.#end(reason === 'shutdown' ? 'retry' : 'final', reason, FAILURES[reason]);
  }

  onDeadline(): void {
    // The answer may be there already.
    this.slot?.readNow?.();
    this.#end('retry', 'timeout', `No complete answer came within ${this.call.timeout_ms} ms.`);
  }

  onConnect(abort: (error?: Error) => void): void {
    this.#connected = true;
    this.#sent_ms = this.#machine.monotonic();
    if (this.finished) return abort(ENDED);
    if (this.slot !== null && this.call.sent?.() !== false) return this.#machine.writer.addHeaders(this.slot.client, this.call);
    // Where this is thrown and the request not aborted undici keeps the connection, so the time that it took is not lost.
    this.reusable = true;
    this.#held = true;
    this.#end('retry', 'stale', FAILURES.stale);
    throw ENDED;
  }

  onRequestSent(): void {
    this.call.written?.();
  }

  onHeaders(status: number, headers: Buffer[]): boolean {
    if (status < 200) {
      if (++this.#informational > INFORMATIONAL_MAX) this.#end('retry', 'protocol', FAILURES.protocol);
      return true;
    }
    this.#status = status;
    if (this.slot !== null) this.slot.awaits_head = false;
    readHead(headers, this);
    // Of a body too large to read to its end only the excerpt is of use.
    if (this.content_length > ANSWER_BYTES_MAX) this.#body_bytes_max = EXCERPT_BYTES_MAX;
    return true;
  }

  onData(chunk: Buffer): boolean {
    if (this.finished) return true;
    if (!this.encoded && this.#body_bytes < EXCERPT_BYTES_MAX) this.#keep(chunk);
    this.#body_bytes += chunk.length;
    if (this.#body_bytes > this.#body_bytes_max) this.#end('retry', 'protocol', FAILURES.protocol);
    return true;
  }

  onComplete(): void {
    this.reusable = true;
    this.#cut = this.#body_bytes > this.#kept_bytes;
    this.#finishByStatus();
  }

  onError(error: Error): void {
    if (this.finished) return;
    this.reusable = this.#connected;
    if (this.#status > 0) return this.#finishByStatus();
    const { code, message } = failureOf(error, this.#connected ? 'sent' : 'connecting', this.#lane.secure);
    this.#finish(code === 'target_blocked' ? 'final' : 'retry', code, message);
  }

  #keep(chunk: Buffer): void {
    if (chunk.length === this.content_length && chunk.length <= EXCERPT_BYTES_MAX) {
      this.#text = excerptOf(chunk, false, this.textual);
      return;
    }
    this.#kept ??= Buffer.allocUnsafe(EXCERPT_BYTES_MAX);
    this.#kept_bytes += chunk.copy(this.#kept, this.#kept_bytes);
  }

  /** We end it. Where the status is known that is the outcome; else the one given. */
  #end(verdict: Verdict, code: FailureCode, message: string): void {
    if (this.finished) return;
    if (this.#status > 0) this.#finishByStatus();
    else this.#finish(verdict, code, message);
  }

  #finishByStatus(): void {
    const status = this.#status;
    if (status >= 200 && status < 300) this.#finish('success', null, '');
    else this.#finish(status === 410 || this.retry_never ? 'final' : 'retry', 'http_status', `HTTP ${status}`);
  }

  #finish(verdict: Verdict, code: FailureCode | null, message: string): void {
    if (this.finished) return;
    this.finished = true;
    const machine = this.#machine;
    machine.deadlines.remove(this);
    this.finished_ms = machine.monotonic();
    const outcome: Outcome = {
      verdict,
      status_code: this.#status > 0 ? this.#status : null,
      duration_ms: Math.round(this.finished_ms - this.begun_ms),
      sent_for_ms: this.#connected ? this.finished_ms - this.#sent_ms : 0,
      error: code === null ? null : { code, message },
      excerpt: this.#kept === null ? this.#text : excerptOf(this.#kept.subarray(0, this.#kept_bytes), this.#cut, this.textual),
      retry_after_ms: this.retry_after === null || verdict === 'success' ? null : retryAfterMs(this.retry_after, machine.now()),
      points_used: this.points_used,
    };
    this.#kept = null;
    if (this.#held) queueMicrotask(() => this.#deliver(outcome));
    else this.#deliver(outcome);
  }

  #deliver(outcome: Outcome): void {
    this.#lane.leave(this);
    try {
      this.#done(outcome);
    } catch (error) {
      // A bug of the caller. Here undici would take it for an error of the connection and swallow it.
      setImmediate(() => {
        throw error;
      });
    }
  }
}
