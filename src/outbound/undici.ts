// Of undici what sends requests, without what else comes with it (fetch, WebSocket, mocks, caches): 130 ms less of a thread's start. A client
// dispatches; its `request`, `stream` and the like, which the types have, come with the rest.
import type * as Undici from 'undici';
import buildConnector from 'undici/lib/core/connect.js';
import symbols from 'undici/lib/core/symbols.js';
import Client, { type Parser } from 'undici/lib/dispatcher/client.js';
import type { WholeAnswer } from './whole-answer.ts';

export { buildConnector, Client };

/**
 * The headers of the request that a client is about to write, names and values in turns. While `onConnect` of its handler runs they can be
 * added to, and go out as they are: undici checks what `dispatch` is given only, character by character.
 */
export function headersOf(client: Undici.Client): string[] {
  const { [symbols.kQueue]: queue, [symbols.kPendingIdx]: at } = client as Client;
  return (queue[at] as { headers: string[] }).headers;
}

/** Opens a connection on which nothing was sent yet; `connect` or `connectionError` tell what became of it. */
export function connect(client: Client): void {
  client[symbols.kConnect](() => {});
}

/**
 * What undici asks its open connection six times a request: made by undici as an object with a getter, which V8 keeps as a dictionary.
 * Here it has fields and a method that compiled code reads directly.
 */
class OpenConnection {
  readonly version: unknown;
  readonly defaultPipelining: unknown;
  readonly write: unknown;
  readonly resume: unknown;
  readonly destroy: unknown;
  readonly busy: unknown;
  readonly #socket: { readonly destroyed: boolean };

  constructor(made: Omit<OpenConnection, 'destroyed'>, socket: { readonly destroyed: boolean }) {
    this.version = made.version;
    this.defaultPipelining = made.defaultPipelining;
    this.write = made.write;
    this.resume = made.resume;
    this.destroy = made.destroy;
    this.busy = made.busy;
    this.#socket = socket;
  }

  get destroyed(): boolean {
    return this.#socket.destroyed;
  }
}

/** Puts an `OpenConnection` in the place of what undici made. To be called each time that a client says it is connected. */
export function speedUp(client: Client): void {
  const { [symbols.kHTTPContext]: made, [symbols.kSocket]: socket } = client;
  if (made !== null && socket !== null) client[symbols.kHTTPContext] = new OpenConnection(made as OpenConnection, socket);
}

/**
 * Tells undici of an answer as its own parser would have done; where no request is under way it closes the connection, as ever. False where there is
 * nobody to tell. Nothing of the answer may have come before: that would be in the parser.
 */
export function takeAnswer(client: Client, { status, headers, keep_alive, body }: WholeAnswer): boolean {
  const socket = client[symbols.kSocket];
  const parser = socket?.[symbols.kParser] ?? null;
  if (socket === null || parser === null) return false;
  try {
    parser.headers = headers;
    parser.keepAlive = keep_alive;
    if (!toldOf(parser, status, body)) socket.destroy();
  } catch (error) {
    socket.destroy(error as Error);
  }
  return true;
}

/** False where undici wants to hear no more of it. */
function toldOf(parser: Parser, status: number, body: Buffer | null): boolean {
  if (parser.onMessageBegin() !== 0) return false;
  const after_head = parser.onHeadersComplete(status, false, true);
  if (after_head === NO_BODY) return parser.onMessageComplete() === 0;
  return after_head === 0 && (body === null || parser.onBody(body) === 0) && parser.onMessageComplete() === 0;
}

/** What undici's parser is told where no body follows whatever the head says. */
const NO_BODY = 1;
