// One request and its answer: owns the uWS response, which may be touched only until it was answered or aborted.
import { randomBytes } from 'node:crypto';
import { type Clock, monotonicMs } from '../base/clock.ts';
import { base62 } from '../base/id.ts';
import type { TracedRequest } from '../tracing/attempts.ts';
import { beginBlocks, beginEvents, type Reply, write } from './answer.ts';
import { BlockWriter } from './block-writer.ts';
import { type BodyBudget, BodyReader, type IncomingBody } from './body.ts';
import { BodyStream } from './body-stream.ts';
import type { OtherCork } from './cork.ts';
import type { HttpRequest, HttpResponse, us_socket_context_t } from './uws.ts';

/** What is told about every request, once: no token, no path, nothing that a caller wrote but the method. */
export interface RequestRecord {
  /** Name of the route; `unmatched` where the path has none. */
  route: string;
  method: string;
  /** 499 where the client went away before the answer. */
  status: number;
  duration_ms: number;
  bytes_in: number;
  bytes_out: number;
  account_id: string | null;
}

/** What an exchange needs of its server. */
export interface ExchangeHost {
  readonly clock: Clock;
  readonly budget: BodyBudget;
  readonly request_ms: number;
  readonly draining: boolean;
  readonly cork: OtherCork;
  onRequest(record: RequestRecord): void;
}

/** What a request to become a WebSocket needs for its answer. */
export interface UpgradeHead {
  key: string;
  protocol: string;
  extensions: string;
  context: us_socket_context_t;
}

const SANE_REQUEST_ID = /^[A-Za-z0-9._~-]{1,128}$/;
/** Metric labels: what is not one of these is `OTHER`. */
const METHODS = new Set(['GET', 'HEAD', 'POST', 'PATCH', 'PUT', 'DELETE', 'OPTIONS']);
/** Rest of a body that is quietly swallowed after an early answer; a client that has more to send is told to close. */
const SWALLOWED_BYTES_MAX = 64 * 1024;
const CLIENT_GONE = 499;
/** Of a body: a second a mebibyte. */
const MS_PER_BYTE = 1_000 / (1024 * 1024);
/** Of RFC 6455. */
const WEBSOCKET_VERSION = '13';

export class Exchange {
  readonly method: string;
  readonly request_id: string;
  readonly now_ms: number;
  readonly head: boolean;
  /** Content-Length; null where the body is chunked or the header is nonsense (the parser then closes); 0 without a body. */
  readonly announced_bytes: number | null;
  /** Headers of the answer, whatever it will be. */
  readonly headers: Record<string, string> = {};
  route = 'unmatched';
  account_id: string | null = null;
  /** Answered or aborted: `res` must not be touched any more. */
  done = false;
  /** On the monotonic clock: then the answer is 503. */
  deadline_ms: number;
  /** null: not looked at by tracing. */
  span: TracedRequest | null = null;
  /** null: it does not ask to become a WebSocket. */
  readonly upgrade_head: UpgradeHead | null;

  readonly #res: HttpResponse;
  readonly #host: ExchangeHost;
  readonly #started_ms = monotonicMs();
  #reader: IncomingBody | null = null;
  #writer: BlockWriter | null = null;
  #paused = false;
  #onGone: (() => void) | null = null;

  constructor(host: ExchangeHost, res: HttpResponse, req: HttpRequest, context: us_socket_context_t | null = null) {
    this.#host = host;
    this.#res = res;
    this.upgrade_head = context === null ? null : upgradeHead(req, context);
    const method = req.getCaseSensitiveMethod();
    this.method = METHODS.has(method) ? method : 'OTHER';
    this.head = method === 'HEAD';
    const given_id = req.getHeader('x-request-id');
    this.request_id = SANE_REQUEST_ID.test(given_id) ? given_id : newRequestId();
    this.announced_bytes = announcedBytes(req);
    this.now_ms = host.clock();
    this.deadline_ms = this.#started_ms + host.request_ms;
    res.onAborted(() => this.#aborted());
  }

  /** Starts to read the body; only before the request handler has returned. */
  read(bytes_max: number): BodyReader {
    const reader = new BodyReader(this.#host.budget, bytes_max, this.announced_bytes, this);
    this.#reader = reader;
    reader.attach(this.#res);
    return reader;
  }

  /** The same for a body that is taken piece by piece. null: there is no room for one more. */
  readPieces(): BodyStream | null {
    const stream = BodyStream.open(this.#host.budget, this.announced_bytes, this, () => this.#host.draining);
    if (stream === null) return null;
    this.#reader = stream;
    stream.attach(this.#res);
    return stream;
  }

  /** Takes no more of the body for now: at most what has come already (one read of the socket) is held. */
  pause(): void {
    this.#res.pause();
    this.#paused = true;
  }

  resume(): void {
    if (this.#paused && !this.done) this.#res.resume();
    this.#paused = false;
  }

  /** The time for the answer stands still, as while a body comes in (the parser bounds that: 16 KB/s). */
  holdDeadline(): void {
    this.deadline_ms = Number.POSITIVE_INFINITY;
  }

  /** For a long body there is more of it: where the cores are busy its tasks take seconds, and would take them again when it is sent again. */
  restartDeadline(body_bytes: number): void {
    this.deadline_ms = monotonicMs() + this.#host.request_ms + body_bytes * MS_PER_BYTE;
  }

  /** Nobody waits for the answer, or for more of it: the client is gone, or was told that it takes too long. */
  get abandoned(): boolean {
    return this.#writer === null ? this.done : this.#writer.over;
  }

  /** Of the other end of the connection; empty where that is gone. */
  address(): string {
    return this.done ? '' : Buffer.from(this.#res.getRemoteAddressAsText()).toString('latin1');
  }

  /** Answers; the first answer counts. */
  answer(reply: Reply): void {
    if (this.done) return;
    this.resume();
    this.done = true;
    const unread = this.#reader === null ? (this.announced_bytes ?? Number.POSITIVE_INFINITY) : this.#reader.bytesLeft();
    const bytes_out = write(this.#res, reply, {
      headers: reply.headers === undefined ? this.headers : { ...this.headers, ...reply.headers },
      request_id: this.request_id,
      head: this.head,
      close: this.#host.draining,
      linger: unread > SWALLOWED_BYTES_MAX,
    });
    this.#report(reply.status, bytes_out);
  }

  /** Answers an upgrade request: from here on its connection is a WebSocket. Only where the client is there. */
  upgrade<T>(data: T): void {
    const head = this.upgrade_head;
    if (head === null) throw new Error('this request did not ask for it');
    this.resume();
    this.done = true;
    const res = this.#res;
    this.#host.cork.run(() => {
      res.writeStatus('101 Switching Protocols').writeHeader('X-Request-Id', this.request_id);
      res.upgrade(data, head.key, head.protocol, head.extensions, head.context);
    });
    this.#report(101, 0);
  }

  /** Begins an answer of Server-Sent Events, which its user goes on with and ends. Only where the client is there. */
  startEvents(onGone: () => void): HttpResponse {
    this.resume();
    this.done = true;
    this.#onGone = onGone;
    beginEvents(this.#res, this.request_id);
    this.#report(200, 0);
    return this.#res;
  }

  /**
   * Answers block by block, as its client takes them. Resolves when the last is on its way, or the client gone; rejects
   * with what a block has met, where it may still be answered if that was the first.
   */
  async sendBlocks(blocks: AsyncIterable<Buffer>, type: string): Promise<void> {
    let writer: BlockWriter | null = null;
    try {
      for await (const block of blocks) {
        writer ??= this.#beginBlocks(type);
        if (writer === null || !(await writer.write(block))) return;
      }
      writer ??= this.#beginBlocks(type);
      writer?.end();
    } catch (error) {
      writer?.cut();
      throw error;
    } finally {
      if (writer !== null) this.#report(200, writer.bytes_out);
    }
  }

  /** null: the client is gone. */
  #beginBlocks(type: string): BlockWriter | null {
    if (this.done) return null;
    this.resume();
    this.done = true;
    const writer = new BlockWriter(this.#res, this.#host.cork);
    this.#writer = writer;
    this.#onGone = () => writer.gone();
    beginBlocks(this.#res, type, { 'X-Request-Id': this.request_id, ...this.headers });
    return writer;
  }

  /** Nothing of this request is in use any more. */
  release(): void {
    this.#reader?.release();
  }

  #aborted(): void {
    this.#onGone?.();
    if (this.done) return;
    this.done = true;
    this.#reader?.abort();
    this.#report(CLIENT_GONE, 0);
  }

  #report(status: number, bytes_out: number): void {
    const duration_ms = monotonicMs() - this.#started_ms;
    this.span?.ended(status === CLIENT_GONE ? null : status, duration_ms);
    this.#host.onRequest({
      route: this.route,
      method: this.method,
      status,
      duration_ms,
      bytes_in: this.#reader?.bytes_in ?? 0,
      bytes_out,
      account_id: this.account_id,
    });
  }
}

/** The native code has looked at the key only. */
function upgradeHead(req: HttpRequest, context: us_socket_context_t): UpgradeHead | null {
  const wants = req.getHeader('upgrade').split(',');
  if (!wants.some((protocol) => protocol.trim().toLowerCase() === 'websocket')) return null;
  if (req.getHeader('sec-websocket-version') !== WEBSOCKET_VERSION) return null;
  return {
    key: req.getHeader('sec-websocket-key'),
    protocol: req.getHeader('sec-websocket-protocol'),
    extensions: req.getHeader('sec-websocket-extensions'),
    context,
  };
}

function announcedBytes(req: HttpRequest): number | null {
  const length = req.getHeader('content-length');
  if (length !== '') return /^\d{1,15}$/.test(length) ? Number(length) : null;
  return req.getHeader('transfer-encoding') === '' ? 0 : null;
}

/** Unique over processes by the random part, within one by the count. */
const PROCESS_PART = base62(Number(randomBytes(6).readUIntBE(0, 6)), 8);
let count = 0;

function newRequestId(): string {
  count = (count + 1) % 62 ** 6;
  return `req_${PROCESS_PART}${base62(count, 6)}`;
}
