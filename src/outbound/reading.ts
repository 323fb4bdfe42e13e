// Reads what connections without TLS bring: past the buffers of their streams, and no more of it in a turn of the event loop than a slice of
// time. What else the thread has to do, such as to hear of a task and to claim it, comes between two slices of a flood's answers
// (docs/decisions/0059-a-turn-is-short.md).
//
//   comes ──time left, and nobody waits──▶ handed to undici at once
//     └──▶ waits ──a slice of a later turn; the end of its connection; its call's deadline──▶ handed to undici
//
// An answer as most are is read by who uses the connection (whole-answer.ts). Of all else undici hears as ever: by `readable`, and by `read()`.
import { type OnReadOpts, Socket } from 'node:net';
import type { Clock } from '../base/clock.ts';
import { Line, type Place } from '../base/line.ts';

/** A turn reads so long. The requests that follow on the answers take about as long again. */
const SLICE_MS = 0.5;
/** Where all else of a turn takes long, answers have this share of it. */
const SHARE = 1 / 4;
/** What has waited longer than this has come to a thread that has more to do than it can do in time. */
const BEHIND_MS = 60;
const READ_BYTES_MAX = 64 * 1024;
/** More than this is no answer as most are, and does not wait: what waits is kept in memory. */
const WAITING_BYTES_MAX = 4 * 1024;

/** Who uses a connection. */
export interface Reader {
  /** No request is under way: what comes now belongs to none, and undici has to see it before it writes the next. */
  readonly free: boolean;
  /** The connection broke: it carries no other request. */
  broken: boolean;
  /** Nothing has come since the request. */
  silent: boolean;
  /** The first that comes: whether it was the whole answer, and is done with. */
  takes(bytes: Buffer): boolean;
}

interface Unread {
  readonly of: Read;
  chunk: Buffer;
  readonly came_ms: number;
}

const READ = Symbol('read');

/** A socket that is read here has what is known of it. */
type ReadSocket = Socket & { [READ]?: Read };

/** A field of Node's streams that has no other name: nothing comes any more, what has come may not be read yet. */
type Ending = Socket & { readonly _readableState: { readonly ended: boolean } };

/** A connection that is read here. */
interface Read {
  readonly socket: Socket;
  readonly reader: Reader;
  unread: Place<Unread> | null;
  /** It was told to bring no more for now. */
  full: boolean;
}

export class Reading {
  /** For `net.connect`: all reads go to the same bytes, and what is kept of them is copied before the next. */
  readonly onread: OnReadOpts;
  readonly #shared = Buffer.allocUnsafeSlow(READ_BYTES_MAX);
  readonly #clock: Clock;
  /** Who came first is first. */
  readonly #waiting = new Line<Unread>();
  /** When the slice of this turn began, or the one of the last turn where some still wait; null where nothing came yet. */
  #began_ms: number | null = null;
  #ended_ms = 0;
  #slice_ms = SLICE_MS;
  #behind = false;
  /** What is handed over right now, and of which connection. */
  #chunk: Buffer | null = null;
  #to: Socket | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
    const came = (socket: ReadSocket, bytes: number): boolean => this.#came(socket, this.#shared.subarray(0, bytes));
    this.onread = {
      buffer: this.#shared,
      // Node calls it on the socket, which its type does not say.
      callback(this: unknown, bytes: number): boolean {
        return came(this as ReadSocket, bytes);
      },
    };
  }

  /** Whether answers wait for longer than they should. */
  get behind(): boolean {
    return this.#behind;
  }

  /** From now on what this socket, opened with `onread`, brings is read here. */
  of(socket: Socket, reader: Reader): void {
    const own: Read = { socket, reader, unread: null, full: false };
    (socket as ReadSocket)[READ] = own;
    const take = (): Buffer | null => this.#take(own);
    const broke = (): void => {
      reader.broken = true;
      this.readNow(socket);
    };
    const forget = (): void => void this.#unread(own);
    socket.read = function read(this: Ending, size?: number) {
      if (size !== 0) {
        const chunk = take();
        if (chunk !== null) return chunk;
        // undici asks twice a request, and the stream, which then has nothing either, takes long to say so.
        if (this.readableLength === 0 && !own.full && !this._readableState.ended) return null;
        own.full = false;
      }
      return Socket.prototype.read.call(this, size);
    };
    // What has come is read before the connection breaks. Before its end undici reads by itself; what is ended on this side has no reader any more.
    socket.destroy = function destroy(error?: NodeJS.ErrnoException) {
      if (error?.syscall !== undefined) broke();
      else forget();
      return Socket.prototype.destroy.call(this, error);
    };
  }

  /** What waits of this connection, if anything, waits no longer. Not to be called while undici parses: it does so for one connection at a time. */
  readNow(socket: Socket): void {
    const read = (socket as ReadSocket)[READ];
    const chunk = read === undefined ? null : this.#unread(read);
    if (chunk !== null) this.#deliver(socket, chunk);
  }

  /** False where the socket should read no more for now. */
  #came(socket: ReadSocket, chunk: Buffer): boolean {
    const now_ms = this.#clock();
    if (this.#began_ms === null) {
      this.#began_ms = now_ms;
      this.#slice_ms = SLICE_MS;
      setImmediate(() => this.#slice());
    }
    const read = socket[READ];
    if (read === undefined) return this.#deliver(socket, chunk);
    const before = read.unread?.item;
    const all = before === undefined ? chunk : Buffer.concat([before.chunk, chunk]);
    if (this.#waits(read, all, now_ms - this.#began_ms)) {
      if (before === undefined) read.unread = this.#waiting.push({ of: read, chunk: this.#own(chunk), came_ms: now_ms });
      else before.chunk = all;
      return true;
    }
    this.#unread(read);
    const more = this.#deliver(socket, all);
    if (!more) read.full = true;
    return more;
  }

  #waits({ socket, reader }: Read, chunk: Buffer, so_far_ms: number): boolean {
    if (this.#waiting.size === 0 && so_far_ms <= this.#slice_ms) return false;
    // What lies in the stream came before.
    if (chunk.length > WAITING_BYTES_MAX || socket.readableLength > 0) return false;
    return !reader.free;
  }

  /** Once a turn, as long as something comes or waits. */
  #slice(): void {
    const began_ms = this.#clock();
    this.#behind = false;
    if (this.#waiting.size === 0) {
      this.#began_ms = null;
      return;
    }
    const others_ms = this.#began_ms !== null && this.#ended_ms > this.#began_ms ? began_ms - this.#ended_ms : 0;
    this.#slice_ms = Math.max(SLICE_MS, SHARE * others_ms);
    this.#began_ms = began_ms;
    this.#ended_ms = began_ms;
    for (let next = this.#waiting.shift(); next !== null; next = this.#waiting.shift()) {
      this.#behind ||= this.#ended_ms - next.came_ms > BEHIND_MS;
      next.of.unread = null;
      this.#deliver(next.of.socket, next.chunk);
      this.#ended_ms = this.#clock();
      if (this.#ended_ms - began_ms > this.#slice_ms) break;
    }
    // Behind the requests that follow on these.
    setImmediate(() => this.#slice());
  }

  /** Takes it out of the line. */
  #unread(read: Read): Buffer | null {
    if (read.unread === null) return null;
    const { item } = read.unread;
    this.#waiting.remove(read.unread);
    read.unread = null;
    return item.chunk;
  }

  /** For undici's `read()`: what is handed over, or what waits where undici asks of itself. Its parser reads one connection at a time. */
  #take(read: Read): Buffer | null {
    if (this.#to === null) {
      const waited = this.#unread(read);
      if (waited !== null) read.reader.silent = false;
      return waited;
    }
    if (this.#to !== read.socket) return null;
    const chunk = this.#chunk;
    this.#chunk = null;
    return chunk;
  }

  /** What is read next is not read over it. */
  #own(chunk: Buffer): Buffer {
    return chunk.buffer === this.#shared.buffer ? Buffer.from(chunk) : chunk;
  }

  /** Where undici does not take it at once, it goes into the stream as ever. */
  #deliver(socket: Socket, chunk: Buffer): boolean {
    if (socket.destroyed) return true;
    const reader = (socket as ReadSocket)[READ]?.reader;
    const first = reader?.silent === true;
    if (first) reader.silent = false;
    if (socket.readableLength > 0) return Socket.prototype.push.call(socket, this.#own(chunk));
    if (first && reader.takes(chunk)) return true;
    this.#chunk = this.#own(chunk);
    this.#to = socket;
    try {
      socket.emit('readable');
    } finally {
      this.#to = null;
    }
    const left = this.#chunk;
    this.#chunk = null;
    return left === null || Socket.prototype.push.call(socket, left);
  }
}
