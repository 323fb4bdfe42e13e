// Reads a body: bounded by itself (`bytes_max`) and together with all others (`BodyBudget`).
import { INTAKE_STAGE_BYTES_MIN } from '../base/limits.ts';
import type { Rooms } from '../base/rooms.ts';
import type { Flow } from './body-stream.ts';
import type { HttpResponse } from './uws.ts';

/** `over`: longer than allowed. `no_room`: all bodies together are. */
export type BodyOutcome = { ok: true; body: Buffer } | { ok: false; reason: 'over' | 'no_room' | 'aborted' };

/** What a request's body is read by. */
export interface IncomingBody {
  /** Bytes that came, kept or not. */
  readonly bytes_in: number;
  /** Bytes that may still come: Infinity in a chunked body that has not ended. */
  bytesLeft(): number;
  /** The client went away. */
  abort(): void;
  /** Gives its room back: the body is not needed any more. Twice is safe. */
  release(): void;
}

/** Bytes held for bodies, over all requests of this process. */
export class BodyBudget {
  readonly bytes_max: number;
  /** Where the largest are read into. */
  readonly rooms: Rooms;
  bytes = 0;

  constructor(bytes_max: number, rooms: Rooms) {
    this.bytes_max = bytes_max;
    this.rooms = rooms;
  }

  take(bytes: number): boolean {
    if (this.bytes + bytes > this.bytes_max) return false;
    this.bytes += bytes;
    return true;
  }

  give(bytes: number): void {
    this.bytes -= bytes;
  }
}

/**
 * Room made for what begins to come: what a client merely announces is not believed. 16,000 connections, each with a few bytes of a
 * body, take a quarter of all room.
 */
const FIRST_BYTES_MAX = 4 * 1024;
/** Who has sent so much is believed the rest: to copy what came each time it doubles would hold up everybody for 40 ms in 15 MiB. */
const BELIEVED_BYTES = 1_048_576;
const EMPTY = Buffer.alloc(0);

export class BodyReader implements IncomingBody {
  /** Settles once; never rejects. */
  readonly outcome: Promise<BodyOutcome>;
  /** Bytes that came, kept or not. */
  bytes_in = 0;

  readonly #budget: BodyBudget;
  readonly #bytes_max: number;
  readonly #announced: number | null;
  readonly #flow: Flow;
  #buffer: Buffer = EMPTY;
  #in_room = false;
  /** What was taken of the budget. Not the buffer's length: who gets the body may send its memory to another thread. */
  #taken = 0;
  #length = 0;
  #ended = false;
  #settled = false;
  #settle: (outcome: BodyOutcome) => void = () => {};

  /** `announced`: Content-Length; null for a chunked body. */
  constructor(budget: BodyBudget, bytes_max: number, announced: number | null, flow: Flow) {
    this.#flow = flow;
    this.#budget = budget;
    this.#bytes_max = bytes_max;
    this.#announced = announced;
    this.outcome = new Promise((resolve) => {
      this.#settle = resolve;
    });
  }

  /** Must be called before the request handler returns, or the first bytes are lost. */
  attach(res: HttpResponse): void {
    res.onData((chunk, last) => this.take(chunk, last));
    const announced = this.#announced ?? 0;
    if (announced > INTAKE_STAGE_BYTES_MIN && announced <= this.#bytes_max) this.#enterRoom(announced);
  }

  /** Copies the chunk: its memory is gone when this returns. */
  take(chunk: ArrayBuffer, last: boolean): void {
    this.bytes_in += chunk.byteLength;
    this.#ended = last;
    if (this.#settled) return;
    const length = this.#length + chunk.byteLength;
    if (length > this.#bytes_max) return this.#fail('over');
    if (!this.#reserve(length, last)) return this.#fail('no_room');
    if (chunk.byteLength > 0) this.#buffer.set(new Uint8Array(chunk), this.#length);
    this.#length = length;
    if (!last) return;
    this.#leaveRoom();
    this.#settled = true;
    this.#settle({ ok: true, body: this.#buffer.subarray(0, length) });
  }

  /** Bytes that may still come: Infinity in a chunked body that has not ended. */
  bytesLeft(): number {
    if (this.#ended) return 0;
    return this.#announced === null ? Number.POSITIVE_INFINITY : this.#announced - this.bytes_in;
  }

  /** The client went away. */
  abort(): void {
    if (!this.#settled) this.#fail('aborted');
  }

  /** Gives the room back: the body is not needed any more. Twice is safe. */
  release(): void {
    // A body that was handed out belongs to who has it, who may read it still.
    if (!this.#settled) this.#budget.rooms.give(this.#buffer.buffer);
    this.#leaveRoom();
    this.#settled = true;
    this.#budget.give(this.#taken);
    this.#taken = 0;
    this.#buffer = EMPTY;
  }

  #fail(reason: 'over' | 'no_room' | 'aborted'): void {
    this.release();
    this.#settle({ ok: false, reason });
  }

  /** Doubles, up to what was announced and soon to that, so that the bytes copied again are never more than those that came. */
  #reserve(length: number, last: boolean): boolean {
    const now = this.#buffer.length;
    if (length <= now) return true;
    const announced = this.#announced ?? this.#bytes_max;
    const believed = this.#announced !== null && now >= BELIEVED_BYTES ? announced : now * 2;
    const wanted = last ? length : Math.max(length, Math.min(announced, Math.max(believed, FIRST_BYTES_MAX)));
    if (wanted > this.#taken) {
      if (!this.#budget.take(wanted - this.#taken)) return false;
      this.#taken = wanted;
    }
    this.#moveTo(Buffer.allocUnsafe(wanted));
    return true;
  }

  #moveTo(room: Buffer): void {
    if (this.#length > 0) this.#buffer.copy(room, 0, 0, this.#length);
    this.#buffer = room;
  }

  /** Has a room made ready for all that was announced; the client waits with what has not come yet. Without one the buffer grows. */
  #enterRoom(bytes: number): void {
    const { rooms } = this.#budget;
    if (!rooms.open() || !this.#budget.take(bytes)) return;
    this.#taken = bytes;
    this.#in_room = true;
    this.#flow.pause();
    void rooms.take(bytes).then((room) => {
      if (this.#settled) return rooms.give(room.buffer);
      this.#moveTo(room);
      this.#flow.resume();
    });
  }

  /** Nothing more comes into the room. */
  #leaveRoom(): void {
    if (this.#in_room) this.#budget.rooms.leave();
    this.#in_room = false;
  }
}
