// Of undici what sends requests, without what else comes with it (fetch, WebSocket, mocks, caches): 130 ms less of a thread's start. A client
// dispatches; its `request`, `stream` and the like, which the types have, come with the rest.
import buildConnector from 'undici/lib/core/connect.js';
import symbols from 'undici/lib/core/symbols.js';
import Client from 'undici/lib/dispatcher/client.js';

export { buildConnector, Client };

/** Opens a connection on which nothing was sent yet; `connect` or `connectionError` tell what became of it. */
export function connect(client: Client): void {
  client[symbols.kConnect](() => {});
}
