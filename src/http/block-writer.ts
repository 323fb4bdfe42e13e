// Writes an answer of unknown length at the pace of its reader: slices of a block, longer ones as long as they go out at once, so that little waits
// in the native code, which tells of room when a part of what it holds has gone, and sends the rest with the next write only.
import type { OtherCork } from './cork.ts';
import type { HttpResponse } from './uws.ts';

/** Less than a socket takes that has just become writable, also a small one; and about the most that waits where the reader is slow. */
const SLICE_BYTES_MIN = 1_024;
const SLICE_BYTES_MAX = 262_144;

export class BlockWriter {
  bytes_out = 0;
  /** null: the answer is over, or its client gone. */
  #res: HttpResponse | null;
  readonly #cork: OtherCork;
  #wake: (() => void) | null = null;
  #slice_bytes = SLICE_BYTES_MIN;

  constructor(res: HttpResponse, cork: OtherCork) {
    this.#res = res;
    this.#cork = cork;
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
    for (let at = 0; at < block.length; ) {
      const res = this.#res;
      if (res === null) return false;
      const slice = block.subarray(at, at + this.#slice_bytes);
      at += slice.length;
      let clear = false;
      // In its own cork a small one is always told to be sent.
      this.#cork.run(() => {
        clear = res.write(slice);
      });
      this.bytes_out += slice.length;
      this.#slice_bytes = clear ? Math.min(2 * this.#slice_bytes, SLICE_BYTES_MAX) : SLICE_BYTES_MIN;
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
