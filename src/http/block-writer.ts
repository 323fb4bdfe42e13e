// Writes an answer of unknown length at the pace of its reader: at most one slice waits in the socket's buffer, however long a block is.
import type { HttpResponse } from './uws.ts';

/** Much less than the kernel takes of a socket that is writable: what waits is gone with the write behind it. */
const SLICE_BYTES = 65_536;

export class BlockWriter {
  bytes_out = 0;
  /** null: the answer is over, or its client gone. */
  #res: HttpResponse | null;
  #wake: (() => void) | null = null;

  constructor(res: HttpResponse) {
    this.#res = res;
    // The native code sends what it holds itself with the next write only.
    res.onWritable(() => {
      this.#resume();
      return true;
    });
  }

  /** The answer is over, or its client gone. */
  get over(): boolean {
    return this.#res === null;
  }

  /** Resolves when the socket takes more; false where the client is gone. Without progress the native code gives up after 10 s. */
  async write(block: Buffer): Promise<boolean> {
    for (let at = 0; at < block.length; at += SLICE_BYTES) {
      const res = this.#res;
      if (res === null) return false;
      const slice = block.subarray(at, at + SLICE_BYTES);
      let clear = false;
      res.cork(() => {
        clear = res.write(slice);
      });
      this.bytes_out += slice.length;
      if (clear) continue;
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
