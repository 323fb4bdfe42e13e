// Work that a thread does itself where little of it comes, and leaves to another where that would take more than a share of its time.
import type { Clock } from './clock.ts';

export class Share {
  readonly #part: number;
  readonly #clock: Clock;
  #from_ms = Number.NEGATIVE_INFINITY;

  /** `part`: of the time, above 0 and up to 1. `clock`: monotonic, ms. */
  constructor(part: number, clock: Clock) {
    this.#part = part;
    this.#clock = clock;
  }

  /** Whether enough time has passed since the last, by how long that took. */
  get isLeft(): boolean {
    return this.#clock() >= this.#from_ms;
  }

  /** Does the work and counts its time; what it returns or throws. */
  spend<T>(work: () => T): T {
    const began_ms = this.#clock();
    try {
      return work();
    } finally {
      this.#from_ms = began_ms + (this.#clock() - began_ms) / this.#part;
    }
  }
}
