// Reads a body that may be of any length, piece by piece: what is not taken yet is bounded, and the rest waits with the client.
import { ApiError } from '../base/errors.ts';
import { LINES_ROOM_BYTES, LINES_WAITING_BYTES_MAX } from '../base/limits.ts';
import type { BodyBudget, IncomingBody } from './body.ts';
import type { HttpResponse } from './uws.ts';

/** The way in: an exchange. */
export interface Flow {
  /** At most what has come already (one read of the socket) follows. */
  pause(): void;
  resume(): void;
}

export class BodyStream implements IncomingBody {
  bytes_in = 0;

  readonly #budget: BodyBudget;
  readonly #announced: number | null;
  readonly #flow: Flow;
  readonly #draining: () => boolean;
  #waiting: Buffer[] = [];
  #waiting_bytes = 0;
  #ended = false;
  #gone = false;
  #released = false;
  #wake: () => void = () => {};

  /** null: no room for one more. */
  static open(budget: BodyBudget, announced: number | null, flow: Flow, draining: () => boolean): BodyStream | null {
    return budget.take(LINES_ROOM_BYTES) ? new BodyStream(budget, announced, flow, draining) : null;
  }

  private constructor(budget: BodyBudget, announced: number | null, flow: Flow, draining: () => boolean) {
    this.#budget = budget;
    this.#announced = announced;
    this.#flow = flow;
    this.#draining = draining;
    this.#ended = announced === 0;
  }

  /** Must be called before the request handler returns, or the first bytes are lost. */
  attach(res: HttpResponse): void {
    res.onData((chunk, last) => this.take(chunk, last));
  }

  /** Copies the chunk: its memory is gone when this returns. */
  take(chunk: ArrayBuffer, last: boolean): void {
    this.bytes_in += chunk.byteLength;
    this.#ended = last;
    if (this.#released) return;
    if (chunk.byteLength > 0) {
      this.#waiting.push(Buffer.from(new Uint8Array(chunk)));
      this.#waiting_bytes += chunk.byteLength;
    }
    if (!last && this.#waiting_bytes > LINES_WAITING_BYTES_MAX) this.#flow.pause();
    this.#wake();
  }

  /** All that waits, or what comes next; null at the end. Rejects where the client is gone, and while the server stops. One at a time. */
  async pull(): Promise<Buffer | null> {
    while (this.#waiting.length === 0 && !this.#ended && !this.#gone) {
      this.#flow.resume();
      await new Promise<void>((wake) => {
        this.#wake = wake;
      });
    }
    if (this.#gone || (this.#draining() && !this.#ended)) throw new ApiError('unavailable', {}, { retry_after_s: 1 });
    if (this.#waiting.length === 0) return null;
    const came = this.#waiting.length === 1 ? (this.#waiting[0] as Buffer) : Buffer.concat(this.#waiting);
    this.#waiting = [];
    this.#waiting_bytes = 0;
    return came;
  }

  bytesLeft(): number {
    if (this.#ended) return 0;
    return this.#announced === null ? Number.POSITIVE_INFINITY : this.#announced - this.bytes_in;
  }

  abort(): void {
    this.#gone = true;
    this.#wake();
  }

  release(): void {
    if (this.#released) return;
    this.#released = true;
    this.#waiting = [];
    this.#budget.give(LINES_ROOM_BYTES);
  }
}
