// Memory for large request bodies, ready to be written to. Fresh memory is not: the kernel clears each page when it is first touched, and a body
// of 15 MiB that comes in over a fast connection held up everybody else for 60 ms, of which 45 were that. So a room is touched
// a little at a time before it is used, and used again.

/** More than malloc ever takes from its own heap, which would have to be cleared at once. Only what is touched is real memory. */
const ROOM_BYTES = 33 * 1_048_576;
/** Bodies that come into rooms at a time: one who announces large bodies and sends little gets no more memory with that. */
const COMING_MAX = 4;
/** Free ones that stay, and for how long. */
const KEPT_MAX = 2;
const KEPT_MS = 60_000;
const PAGE_BYTES = 4096;
/** How long pages are touched at a stretch, and how long others have then. */
const TOUCH_MS = 0.5;
const REST_MS = 1;

export class Rooms {
  readonly #free: ArrayBuffer[] = [];
  #coming = 0;
  #forget: NodeJS.Timeout | undefined;

  /** Whether one more body may come into a room. */
  open(): boolean {
    return this.#coming < COMING_MAX;
  }

  /** What came into a room is there, or comes no more. Once for each `take`. */
  leave(): void {
    this.#coming -= 1;
  }

  /** A room for so many bytes, all in memory. Its memory may be sent to another thread; `give` takes it from wherever it comes back. */
  async take(bytes: number): Promise<Buffer> {
    this.#coming += 1;
    const memory = this.#fitting(bytes) ?? new ArrayBuffer(Math.max(bytes, ROOM_BYTES));
    const room = Buffer.from(memory, 0, bytes);
    for (let at = 0; at < bytes; ) {
      for (const until_ms = performance.now() + TOUCH_MS; at < bytes && performance.now() < until_ms; at += PAGE_BYTES) room[at] = 0;
      if (at < bytes) await new Promise((rested) => setTimeout(rested, REST_MS));
    }
    return room;
  }

  /** Takes a room back. What is none, and what was sent away meanwhile, is left alone. */
  give(memory: ArrayBufferLike): void {
    if (!(memory instanceof ArrayBuffer) || memory.byteLength !== ROOM_BYTES || this.#free.length >= KEPT_MAX) return;
    this.#free.push(memory);
    clearTimeout(this.#forget);
    this.#forget = setTimeout(() => this.#free.splice(0), KEPT_MS).unref();
  }

  #fitting(bytes: number): ArrayBuffer | undefined {
    return bytes > ROOM_BYTES ? undefined : this.#free.pop();
  }
}
