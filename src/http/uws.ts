// Loads the one build of uWebSockets.js that has a binary for this Node; the other is never touched.
import type * as Uws from 'uWebSockets.js';
import type { TemplatedApp, us_listen_socket } from 'uWebSockets.js';
import { createRequire } from 'node:module';

export type { HttpRequest, HttpResponse, TemplatedApp, us_listen_socket, us_socket_context_t, WebSocket } from 'uWebSockets.js';

/** All headers of a request together. The native code reads it from the environment, once, as it is loaded; its own default is 4 KiB. */
const HEADER_BYTES_MAX = '16384';

/** `process.versions.modules` of Node 20 and 22; what is newer has its binaries in the other package. */
const OLDER = new Set(['115', '127']);

process.env['UWS_HTTP_MAX_HEADERS_SIZE'] ??= HEADER_BYTES_MAX;

type Listen = (this: TemplatedApp, host: string, port: number, options: number, done: (socket: us_listen_socket | false) => void) => void;

/** Without it two processes could listen on one port, each unaware of the other. */
const EXCLUSIVE_PORT = 1;

export const uws = createRequire(import.meta.url)(
  OLDER.has(process.versions.modules) ? 'uWebSockets.js' : 'uWebSockets.js-next',
) as typeof Uws;

/** false: it cannot, and the native code does not say why. The form with both a host and options is not in the typings. */
export function listen(app: TemplatedApp, host: string, port: number): Promise<us_listen_socket | false> {
  return new Promise((resolve) => {
    (app.listen as unknown as Listen).call(app, host, port, EXCLUSIVE_PORT, resolve);
  });
}
