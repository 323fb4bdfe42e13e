// Of undici what sends requests, without what else comes with it (fetch, WebSocket, mocks, caches): 130 ms less of a thread's start. A client
// dispatches; its `request`, `stream` and the like, which the types have, come with the rest.
import { createRequire } from 'node:module';

const load = createRequire(import.meta.url);

type Loaded = typeof import('undici');

const kConnect: unique symbol = load('undici/lib/core/symbols.js').kConnect;
/** Its `kConnect`, which has no other name, opens its connection without a request. */
export type Client = import('undici').Client & { [kConnect](opened: () => void): void };
export const Client = load('undici/lib/dispatcher/client.js') as new (...args: ConstructorParameters<Loaded['Client']>) => Client;
export const buildConnector = load('undici/lib/core/connect.js') as Loaded['buildConnector'];

/** Opens a connection on which nothing was sent yet; `connect` or `connectionError` tell what became of it. */
export function connect(client: Client): void {
  client[kConnect](() => {});
}
