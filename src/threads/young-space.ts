// What keeps a thread's young space large while it rests (docs/decisions/0060).
import { performance } from 'node:perf_hooks';

/** V8 gives it back at the first collection that comes after less than 1 MB a second. */
const BYTES_A_SECOND = 1_500_000;
/** Well below the size from which on objects have a space of their own. */
const LENGTH = 4_000;
const ELEMENT_BYTES = 8;
const ARRAYS = Math.ceil(BYTES_A_SECOND / (LENGTH * ELEMENT_BYTES));
/** Who was busy for so much of a second may be so again soon. */
const BUSY = 0.2;
const KEPT_S = 600;

export class YoungSpace {
  #kept_s = 0;
  #loop = performance.eventLoopUtilization();
  /** Where nothing referred to it, it would not have to be made. */
  latest: unknown[] = [];

  /** Once a second. Where the thread was busy a while ago and is not now, makes as much garbage as keeps its space: 0.3 ms. */
  tick(): void {
    const now = performance.eventLoopUtilization();
    const { utilization } = performance.eventLoopUtilization(now, this.#loop);
    this.#loop = now;
    if (utilization > BUSY) this.#kept_s = KEPT_S;
    else if (this.#kept_s > 0) {
      this.#kept_s -= 1;
      for (let i = 0; i < ARRAYS; i++) this.latest = new Array(LENGTH);
    }
  }
}
