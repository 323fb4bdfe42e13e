// Sends prepared requests over one kept connection, so that the time from their first byte on is the server's: a client that makes
// each request anew spends a good part of a millisecond of its own, in the same process as the clock that it is measured by.
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { machineMs } from './receiver.ts';

/** As many characters as the moment of sending takes in the body. */
const CLOCK_WIDTH = 20;
export const CLOCK = '0'.repeat(CLOCK_WIDTH);

export class Poster {
  readonly #url: URL;
  #socket: Socket | null = null;
  #text = '';
  #answered: { done(): void; failed(error: Error): void } | null = null;

  constructor(url: string) {
    this.#url = new URL(url);
  }

  /** The server closes a connection that was idle for ten seconds. */
  async #connected(): Promise<Socket> {
    if (this.#socket !== null) return this.#socket;
    const socket = connect(Number(this.#url.port), this.#url.hostname);
    socket.setNoDelay(true);
    socket.on('data', (chunk: Buffer) => this.#read(chunk.toString('latin1')));
    socket.on('error', (error) => this.#answered?.failed(error));
    socket.on('close', () => {
      this.#socket = null;
      this.#answered?.failed(new Error('the server closed the connection'));
    });
    await once(socket, 'connect');
    this.#socket = socket;
    return socket;
  }

  /** The bytes of a request, whose body says CLOCK where it is to name the moment at which it is sent. */
  static prepare(path: string, token: string, body: string): { bytes: Buffer; clock_at: number } {
    const head = [`POST ${path} HTTP/1.1`, 'host: bench', `authorization: Bearer ${token}`, 'content-type: application/json'];
    const bytes = Buffer.from(`${head.join('\r\n')}\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
    return { bytes, clock_at: bytes.indexOf(CLOCK) };
  }

  /** Resolves when the answer has come, which must be a 201, with the moment of sending, of `machineMs`; or what is given for it. One at a time. */
  async send({ bytes, clock_at }: { bytes: Buffer; clock_at: number }, at_ms?: number): Promise<number> {
    const socket = await this.#connected();
    const answered = new Promise<void>((done, failed) => {
      this.#answered = { done, failed };
    });
    const sent_ms = at_ms ?? machineMs();
    bytes.write(sent_ms.toFixed(3).padStart(CLOCK_WIDTH, '0'), clock_at, 'latin1');
    socket.write(bytes);
    await answered;
    return sent_ms;
  }

  close(): void {
    this.#socket?.destroy();
  }

  #read(text: string): void {
    this.#text += text;
    const head = this.#text.indexOf('\r\n\r\n');
    if (head < 0) return;
    const length = Number(/^content-length: (\d+)/im.exec(this.#text.slice(0, head))?.[1] ?? Number.NaN);
    if (this.#text.length < head + 4 + length) return;
    const answer = this.#text;
    this.#text = '';
    if (answer.startsWith('HTTP/1.1 201 ')) this.#answered?.done();
    else this.#answered?.failed(new Error(`a task was not created: ${answer.slice(0, 500)}`));
    this.#answered = null;
  }
}
