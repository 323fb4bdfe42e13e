// One connection: an undici `Client` that carries one request at a time.
//
// Connections that were opened together are not closed together: a few hundred of them in one turn, each with undici's error and its stack, hold up
// every call of the thread. So of an origin's connections the later ones live shorter, down to half as long.
import type { Socket } from 'node:net';
import type { Carrier } from './attempt.ts';
import { ANSWER_HEAD_BYTES_MAX } from './call.ts';
import type { Connector, Opening } from './connector.ts';
import { Client, connect, speedUp, takeAnswer } from './undici.ts';
import { wholeAnswer } from './whole-answer.ts';

/** Below the 5 s after which a Node server drops an idle connection, so that a request seldom meets a closing one. */
const KEEP_ALIVE_MS = 4_000;
/** Taken off a server's own `Keep-Alive: timeout=…`. */
const KEEP_ALIVE_MARGIN_MS = 1_000;
/** A busy connection is opened anew after this time, so that a change of DNS or of a load balancer reaches us. */
const AGE_MS_MAX = 120_000;
/** Connections of an origin over which their lives are spread; the next has a full one again. */
const SPREAD = 256;

/** One connection, open or not: undici opens it with the first request. */
export class Slot implements Carrier, Opening {
  readonly client: Client;
  /** When it is to be opened anew, however busy it is. Monotonic, ms. */
  readonly until_ms: number;
  opening: Socket | null = null;
  readNow: (() => void) | null = null;
  broken = false;
  awaits_head = false;
  silent = false;
  /** It was never open yet. */
  fresh = true;
  /** Nobody uses it. */
  free = false;

  /** `before`: as many connections its origin has. */
  constructor(origin: string, before: number, now_ms: number, connectorFor: (slot: Opening) => Connector) {
    const share = 1 - (before % SPREAD) / SPREAD / 2;
    this.until_ms = now_ms + share * AGE_MS_MAX;
    this.client = new Client(origin, {
      connect: connectorFor(this),
      pipelining: 1,
      keepAliveTimeout: share * KEEP_ALIVE_MS,
      keepAliveMaxTimeout: share * KEEP_ALIVE_MS,
      keepAliveTimeoutThreshold: KEEP_ALIVE_MARGIN_MS,
      maxHeaderSize: ANSWER_HEAD_BYTES_MAX,
      // Our own deadlines cover both, and the body as a whole.
      headersTimeout: 0,
      bodyTimeout: 0,
    });
    this.client.on('connect', () => speedUp(this.client));
  }

  takes(bytes: Buffer): boolean {
    const answer = wholeAnswer(bytes);
    return answer !== null && takeAnswer(this.client, answer);
  }

  /** Opens it without a request. */
  connect(failed: (error: Error) => void): void {
    this.client.once('connectionError', (_url, _targets, error) => failed(error));
    connect(this.client);
  }

  /** Closes it once undici has finished with the request that has just been answered. */
  retire(): void {
    this.client.close(noop);
  }

  /** Closes it at once, also halfway through connecting. */
  destroy(done: () => void = noop): void {
    this.opening?.destroy();
    this.client.destroy(done);
  }
}

function noop(): void {}
