// The receiver that `sluice bench --listen` brings: answers every call with 200 at once, and counts tasks and calls.
import { createServer, type Server } from 'node:http';
import { type AddressInfo, isIP } from 'node:net';
import { Failure, UsageError } from './command.ts';

export interface Received {
  calls: number;
  /** Different ones, by `webhook-id`. */
  tasks: number;
}

export class BenchReceiver {
  readonly url: string;
  readonly #server: Server;
  readonly #ids = new Set<string>();
  readonly #tasks_max: number;
  #calls = 0;

  private constructor(server: Server, host: string, tasks_max: number) {
    this.#server = server;
    this.#tasks_max = tasks_max;
    const { port } = server.address() as AddressInfo;
    this.url = `http://${isIP(host) === 6 ? `[${host}]` : host}:${port}/`;
    server.on('request', (request, response) => {
      // A port that listens for anybody remembers no more than what was sent.
      const id = request.headers['webhook-id'];
      this.#calls += 1;
      if (typeof id === 'string' && this.#ids.size < this.#tasks_max) this.#ids.add(id);
      request.resume().once('end', () => response.end('ok'));
      request.on('error', () => {});
    });
  }

  /** `address` is HOST:PORT, the host an address of this machine. */
  static async listen(address: string, tasks_max: number): Promise<BenchReceiver> {
    const [, host = '', digits = ''] =
      /^(?:\[([\da-f:.]+)\]|([^:]+)):(\d{1,5})$/i.exec(address)?.filter((part) => part !== undefined) ?? [];
    const port = Number(digits);
    if (host === '' || port > 65_535) throw new UsageError('--listen must be HOST:PORT, such as 127.0.0.1:9000.');
    const server = createServer();
    await new Promise<void>((listening, failed) => {
      server.once('error', (error) => failed(new Failure(`Cannot listen on ${address}: ${error.message}.`, { code: 'cannot_listen' })));
      server.listen(port, host, listening);
    });
    return new BenchReceiver(server, host, tasks_max);
  }

  counts(): Received {
    return { calls: this.#calls, tasks: this.#ids.size };
  }

  async close(): Promise<void> {
    const closed = new Promise((done) => this.#server.close(done));
    this.#server.closeAllConnections();
    await closed;
  }
}
