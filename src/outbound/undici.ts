// Of undici what sends requests, without what else comes with it (fetch, WebSocket, mocks, caches): 130 ms less of a thread's start. A client
// dispatches; its `request`, `stream` and the like, which the types have, come with the rest.
import { createRequire } from 'node:module';

const load = createRequire(import.meta.url);

export const Client = load('undici/lib/dispatcher/client.js') as typeof import('undici').Client;
export type Client = import('undici').Client;
export const buildConnector = load('undici/lib/core/connect.js') as typeof import('undici').buildConnector;
