// What keeps a thread's young space large while it rests (docs/decisions/0060).

/** V8 gives it back at the first collection that comes after less than 1 MB a second. */
const BYTES_A_SECOND = 1_500_000;
/** Well below the size from which on objects have a space of their own. */
const LENGTH = 4_000;
const ELEMENT_BYTES = 8;
const ARRAYS = Math.ceil(BYTES_A_SECOND / (LENGTH * ELEMENT_BYTES));
/** Below, it has not grown, and would be collected every second. */
const GROWN_BYTES = 4 * 1_048_576;
const KEPT_S = 600;

export class YoungSpace {
  #kept_s = 0;

  /** The thread has work. */
  used(): void {
    this.#kept_s = KEPT_S;
  }

  /**
   * Once a second. `young_bytes`: size of the young space. Where it has grown, and there was work in the last ten minutes, makes as much garbage as
   * keeps it, in 0.3 ms; whether it has.
   */
  tick(young_bytes: number): boolean {
    if (this.#kept_s === 0) return false;
    this.#kept_s -= 1;
    if (young_bytes < GROWN_BYTES) return false;
    makeGarbage();
    return true;
  }
}

/** Where nothing referred to it, it would not have to be made. */
const garbage: { latest: unknown[] } = { latest: [] };

/** As much as keeps the young space of this thread for a second, in 0.3 ms. */
export function makeGarbage(): void {
  for (let i = 0; i < ARRAYS; i++) garbage.latest = new Array(LENGTH);
}

/** Of the thread that asks: bytes that V8 has for objects that are young, in use or not. */
export function youngBytes(spaces: readonly { space_name: string; space_size: number }[]): number {
  return spaces.find(({ space_name }) => space_name === 'new_space')?.space_size ?? 0;
}
