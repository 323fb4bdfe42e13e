// The sockets of progress streams: WebSockets and event streams, opened after a request was let in, fed by the stream
// threads, closed with a reason. A reader that falls behind is closed, never skipped.
import { monotonicMs } from '../base/clock.ts';
import type { StreamHub, StreamOutlet } from '../streams/hub.ts';
import { ENDS, type StreamEnd, type StreamGrant } from '../streams/messages.ts';
import type { Exchange } from './exchange.ts';
import type { HttpRequest, HttpResponse, TemplatedApp, us_socket_context_t, WebSocket } from './uws.ts';

export interface StreamMeter {
  /** So many frames were handed to sockets. */
  frames(count: number): void;
  /** `client`: the other side went away. */
  closed(reason: StreamEnd | 'client'): void;
}

const BEHIND_BYTES_MAX = 256 * 1024;
/** Where the native code would drop a message; a reader is closed long before, with a close frame that still finds room. */
const NATIVE_BEHIND_BYTES_MAX = 16 * 1024 * 1024;
const MESSAGE_BYTES_MAX = 4 * 1024;
/** Larger ones are cut off by the native code, without a close frame. */
const NATIVE_MESSAGE_BYTES_MAX = 256 * 1024;
const MESSAGES_PER_SECOND_MAX = 10;
/** A client that answers no ping for so long is gone. */
const IDLE_S = 30;
const SWEEP_MS = 1_000;
/** Proxies close event streams that say nothing. */
const HEARTBEAT_SWEEPS = 15;
const HEARTBEAT = ':\n\n';

type OnUpgrade = (res: HttpResponse, req: HttpRequest, context: us_socket_context_t) => void;

/** One open stream, of either kind. */
interface Reader {
  readonly grant: StreamGrant;
  /** Hash of the token that it was opened with, null where that always holds. */
  readonly token: string | null;
  topic: string | null;
  readonly behind_bytes: number;
  send(frame: Uint8Array): void;
  /** Once; `onClosed` of the streams follows. */
  end(end: StreamEnd): void;
}

export class Streams implements StreamOutlet {
  readonly #app: TemplatedApp;
  readonly #hub: StreamHub;
  readonly #meter: StreamMeter;
  readonly #readers = new Map<string, Reader>();
  readonly #topics = new Map<string, Set<Reader>>();
  readonly #holds: (token: string) => Promise<boolean>;
  /** Runs while there are readers. */
  #timer: NodeJS.Timeout | null = null;
  #sweeps = 0;

  /** `holds`: whether a token, known by its hash, is still good. */
  constructor(app: TemplatedApp, hub: StreamHub, meter: StreamMeter, holds: (token: string) => Promise<boolean>) {
    this.#app = app;
    this.#hub = hub;
    this.#meter = meter;
    this.#holds = holds;
    hub.outlet = this;
  }

  /** After `endAll`. */
  stop(): void {
    this.#rest();
  }

  /** A place that no stream takes. */
  giveBack(grant: StreamGrant): void {
    this.#hub.close(grant);
  }

  /** Answers the request with the stream, which ends with its token; where its client is gone, gives the place back. */
  begin(x: Exchange, kind: 'websocket' | 'events', grant: StreamGrant, token: string | null): void {
    if (x.done) return this.giveBack(grant);
    if (kind === 'websocket') return x.upgrade<SocketData>({ reader: new SocketReader(grant, token) });
    const reader: EventReader = new EventReader(grant, token, (end) => this.#closed(reader, end));
    reader.attach(x.startEvents(() => reader.gone()));
    this.#opened(reader);
  }

  /**
   * Takes the upgrade requests of a path; `handle` answers them. `onSocketClosed`: a WebSocket is gone, which the native
   * code tells nobody who counts connections.
   */
  serve(path: string, handle: OnUpgrade, onSocketClosed: () => void): void {
    this.#app.ws<SocketData>(path, {
      maxBackpressure: NATIVE_BEHIND_BYTES_MAX,
      maxPayloadLength: NATIVE_MESSAGE_BYTES_MAX,
      idleTimeout: IDLE_S,
      upgrade: handle,
      open: (ws) => {
        const { reader } = ws.getUserData();
        reader.attach(ws);
        this.#opened(reader);
      },
      message: (ws, message) => ws.getUserData().reader.heard(message.byteLength),
      ping: (ws, message) => ws.getUserData().reader.heard(message.byteLength),
      dropped: (ws) => ws.close(),
      close: (ws) => {
        const { reader } = ws.getUserData();
        this.#closed(reader, reader.detach());
        onSocketClosed();
      },
    });
  }

  endAll(end: StreamEnd): void {
    for (const reader of [...this.#readers.values()]) reader.end(end);
  }

  join(stream: string, topic: string, frame: Uint8Array): void {
    const reader = this.#readers.get(stream);
    if (reader === undefined) return;
    reader.send(frame);
    this.#meter.frames(1);
    if (reader.topic !== null) return;
    reader.topic = topic;
    const readers = this.#topics.get(topic) ?? new Set();
    this.#topics.set(topic, readers.add(reader));
    if (reader instanceof SocketReader) reader.subscribe(topic);
  }

  publish(topic: string, frames: Uint8Array, ends: readonly number[]): void {
    const readers = this.#topics.get(topic);
    if (readers === undefined) return;
    this.#meter.frames(ends.length * readers.size);
    const event_readers: EventReader[] = [];
    for (const reader of [...readers]) {
      if (reader.behind_bytes > BEHIND_BYTES_MAX) reader.end('slow');
      else if (reader instanceof EventReader) event_readers.push(reader);
    }
    if (readers.size > event_readers.length) {
      let from = 0;
      for (const end of ends) {
        this.#app.publish(topic, frames.subarray(from, end));
        from = end;
      }
    }
    if (event_readers.length === 0) return;
    const chunk = eventsOf(frames, ends);
    for (const reader of event_readers) reader.write(chunk);
  }

  end(topic: string, end: StreamEnd): void {
    for (const reader of [...(this.#topics.get(topic) ?? [])]) reader.end(end);
  }

  endOne(stream: string, end: StreamEnd): void {
    this.#readers.get(stream)?.end(end);
  }

  #opened(reader: Reader): void {
    this.#readers.set(reader.grant.stream, reader);
    this.#timer ??= setInterval(() => this.#sweep(), SWEEP_MS).unref();
    this.#hub.open(reader.grant);
  }

  #closed(reader: Reader, end: StreamEnd | 'client'): void {
    const { grant, topic } = reader;
    if (!this.#readers.delete(grant.stream)) return;
    const readers = topic === null ? undefined : this.#topics.get(topic);
    readers?.delete(reader);
    if (topic !== null && readers?.size === 0) this.#topics.delete(topic);
    this.#hub.close(grant);
    this.#meter.closed(end);
  }

  #rest(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
  }

  /** Finds readers that fell behind by what was sent last, those whose token holds no more, and event streams whose client is gone without a word. */
  #sweep(): void {
    if (this.#readers.size === 0) return this.#rest();
    this.#sweeps += 1;
    for (const reader of [...this.#readers.values()]) {
      if (reader.behind_bytes > BEHIND_BYTES_MAX) reader.end('slow');
      else if (reader instanceof EventReader && this.#sweeps % HEARTBEAT_SWEEPS === 0) reader.write(HEARTBEAT);
    }
    for (const token of new Set([...this.#readers.values()].map((reader) => reader.token))) {
      if (token !== null) void this.#endRevoked(token);
    }
  }

  async #endRevoked(token: string): Promise<void> {
    // Where nobody knows, it holds until somebody does.
    if (await this.#holds(token).catch(() => true)) return;
    for (const reader of [...this.#readers.values()]) if (reader.token === token) reader.end('revoked');
  }
}

/** The native code keeps a copy of the object that it is given, without its prototype. */
interface SocketData {
  reader: SocketReader;
}

class SocketReader implements Reader {
  readonly grant: StreamGrant;
  readonly token: string | null;
  topic: string | null = null;
  /** null: not open yet, or closed; the native object must not be touched then. */
  #ws: WebSocket<SocketData> | null = null;
  #end: StreamEnd | 'client' = 'client';
  #second_from_ms = 0;
  #messages = 0;

  constructor(grant: StreamGrant, token: string | null) {
    this.grant = grant;
    this.token = token;
  }

  attach(ws: WebSocket<SocketData>): void {
    this.#ws = ws;
  }

  /** Why it was closed. */
  detach(): StreamEnd | 'client' {
    this.#ws = null;
    return this.#end;
  }

  get behind_bytes(): number {
    return this.#ws?.getBufferedAmount() ?? 0;
  }

  send(frame: Uint8Array): void {
    this.#ws?.send(frame);
  }

  subscribe(topic: string): void {
    this.#ws?.subscribe(topic);
  }

  end(end: StreamEnd): void {
    if (this.#ws === null) return;
    this.#end = end;
    this.#ws.end(ENDS[end].code, ENDS[end].text);
  }

  /** There is nothing that a client could say here. */
  heard(bytes: number): void {
    const now_ms = monotonicMs();
    if (now_ms - this.#second_from_ms >= 1_000) {
      this.#second_from_ms = now_ms;
      this.#messages = 0;
    }
    this.#messages += 1;
    if (bytes > MESSAGE_BYTES_MAX || this.#messages > MESSAGES_PER_SECOND_MAX) this.end('misused');
  }
}

/** Server-Sent Events. What the socket does not take at once waits here, where it can be counted. */
class EventReader implements Reader {
  readonly grant: StreamGrant;
  readonly token: string | null;
  topic: string | null = null;
  readonly #onClosed: (end: StreamEnd | 'client') => void;
  #res: HttpResponse | null = null;
  /** Whether the socket has taken all. */
  #clear = true;
  #ended = false;
  #waiting: (string | Uint8Array)[] = [];
  #waiting_bytes = 0;

  constructor(grant: StreamGrant, token: string | null, onClosed: (end: StreamEnd | 'client') => void) {
    this.grant = grant;
    this.token = token;
    this.#onClosed = onClosed;
  }

  attach(res: HttpResponse): void {
    this.#res = res;
    res.onWritable(() => this.#more());
  }

  get behind_bytes(): number {
    return this.#waiting_bytes;
  }

  send(frame: Uint8Array): void {
    this.write(eventsOf(frame, [frame.byteLength]));
  }

  write(chunk: string | Uint8Array): void {
    if (this.#res === null || this.#ended) return;
    if (this.#clear) this.#clear = writeChunk(this.#res, chunk);
    else {
      this.#waiting.push(chunk);
      this.#waiting_bytes += chunk.length;
    }
  }

  /** The socket takes more. It only passes on what it holds itself when it is written to: where nothing waits, a comment. */
  #more(): boolean {
    if (this.#res === null) return true;
    do {
      const chunk = this.#waiting.shift() ?? HEARTBEAT;
      this.#waiting_bytes = Math.max(0, this.#waiting_bytes - chunk.length);
      this.#clear = writeChunk(this.#res, chunk);
    } while (this.#clear && this.#waiting.length > 0);
    if (this.#waiting.length === 0) this.#waiting_bytes = 0;
    const clear = this.#clear;
    if (clear && this.#ended) this.#finish(this.#res);
    return clear;
  }

  end(end: StreamEnd): void {
    const res = this.#res;
    if (res === null || this.#ended) return;
    this.#ended = true;
    // What waits is sent first, but not to one who does not read; without progress the native code gives up after 10 s.
    if (this.#clear) this.#finish(res);
    else if (end === 'slow') {
      this.#res = null;
      res.close();
    }
    this.#onClosed(end);
  }

  #finish(res: HttpResponse): void {
    this.#res = null;
    res.cork(() => void res.end());
  }

  /** The client went away, or took nothing for so long that the native code gave it up. */
  gone(): void {
    this.#res = null;
    if (!this.#ended) this.#onClosed(this.#clear ? 'client' : 'slow');
    this.#ended = true;
  }
}

function writeChunk(res: HttpResponse, chunk: string | Uint8Array): boolean {
  let clear = false;
  res.cork(() => {
    clear = res.write(chunk);
  });
  return clear;
}

const DATA = Buffer.from('data: ');
const END_OF_EVENT = Buffer.from('\n\n');

/** Frames are one line of JSON each. */
function eventsOf(frames: Uint8Array, ends: readonly number[]): Uint8Array {
  const parts: Uint8Array[] = [];
  let from = 0;
  for (const end of ends) {
    parts.push(DATA, frames.subarray(from, end), END_OF_EVENT);
    from = end;
  }
  return Buffer.concat(parts);
}
