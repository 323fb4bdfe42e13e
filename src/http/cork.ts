// A cork for what must not be written within its own, once something else was waited for. Outside of any cork that works, but the native code
// prints a warning for each. So it is done within the cork of another response: one to ourselves, that is never finished.
//
// An upgrade to a WebSocket: native code older than uWebSockets #1929 closes some sockets that were upgraded within their own cork: it looks at the
// socket once more as if it still were a response, in memory that it has given back just before (one in some thousand
// upgrades was closed here). And slices of a block (block-writer.ts): within its own cork a small one is always told to be sent.
import { connect, type Socket } from 'node:net';
import { type HttpResponse, listen, uws } from './uws.ts';

const LOOPBACK = '127.0.0.1';

export class OtherCork {
  readonly #app = uws.App();
  #client: Socket | null = null;
  #response: HttpResponse | null = null;

  /** Without it, as where there is no loopback, all is written the same. */
  async open(): Promise<void> {
    const held = new Promise<void>((resolve) => {
      this.#app.any('/*', (res) => {
        res.onAborted(() => {
          this.#response = null;
        });
        this.#response = res;
        resolve();
      });
    });
    const socket = await listen(this.#app, LOOPBACK, 0);
    if (socket === false) return;
    const client = connect(uws.us_socket_local_port(socket), LOOPBACK).unref();
    this.#client = client;
    client.on('error', () => {}); // Shows as a response that is gone.
    const closed = new Promise<void>((resolve) => client.once('close', () => resolve()));
    client.write(`GET / HTTP/1.1\r\nHost: ${LOOPBACK}\r\n\r\n`);
    await Promise.race([held, closed]);
    uws.us_listen_socket_close(socket);
  }

  run(work: () => void): void {
    if (this.#response === null) work();
    else this.#response.cork(work);
  }

  close(): void {
    this.#client?.destroy();
    this.#app.close();
  }
}
