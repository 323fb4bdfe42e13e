// Writes an answer of unknown length at the pace of its reader: at most one block waits in the socket's buffer.
import type { HttpResponse } from './uws.ts';

export class BlockWriter {
  bytes_out = 0;
  /** null: the answer is over, or its client gone. */
  #res: HttpResponse | null;
  #wake: (() => void) | null = null;

  constructor(res: HttpResponse) {
    this.#res = res;
    // Whoever waits writes next, and with that the native code sends what it holds itself.
    res.onWritable(() => {
      this.#resume();
      return true;
    });
  }

  /** Resolves when the socket takes more; false where the client is gone. Without progress the native code gives up after 10 s. */
  async write(block: Buffer): Promise<boolean> {
    const res = this.#res;
    if (res === null) return false;
    let clear = false;
    res.cork(() => {
      clear = res.write(block);
    });
    this.bytes_out += block.length;
    if (!clear) {
      await new Promise<void>((wake) => {
        this.#wake = wake;
      });
    }
    return this.#res !== null;
  }

  end(): void {
    const res = this.#res;
    this.#res = null;
    res?.cork(() => void res.end());
  }

  /** Closes the connection, so that nobody takes the answer for whole. */
  cut(): void {
    const res = this.#res;
    this.#res = null;
    res?.close();
  }

  gone(): void {
    this.#res = null;
    this.#resume();
  }

  #resume(): void {
    this.#wake?.();
    this.#wake = null;
  }
}
