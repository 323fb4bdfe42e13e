// Outcomes that wait to be told to Redis, and for how long: a call that tells of many costs hardly more than one that tells of few.
// While others of the partition are under way they may keep these company; where an outcome frees a slot of a limiter others wait
// for it, so it is told soon.
import { monotonicMs } from '../base/clock.ts';
import { SETTLE_DELAY_MS, SETTLE_DELAY_MS_MAX, SETTLE_FLUSH, SETTLE_MAX } from '../base/limits.ts';
import type { Settlement } from '../store/partition.ts';

export class Outcomes {
  readonly #under_way: () => number;
  #waiting: Settlement[] = [];
  #first_ms = 0;
  #urgent = false;

  /** `under_way` tells how many tasks of the partition are in flight, those among them whose outcomes wait here. */
  constructor(under_way: () => number) {
    this.#under_way = under_way;
  }

  get size(): number {
    return this.#waiting.length;
  }

  /** So many wait that they are told at once. */
  get full(): boolean {
    return this.#waiting.length >= SETTLE_FLUSH;
  }

  /** Whether the time at which they are to be told has changed. */
  push(settlement: Settlement): boolean {
    if (this.#waiting.length === 0) {
      this.#first_ms = monotonicMs();
      this.#urgent = false;
    }
    this.#waiting.push(settlement);
    const urgent = !this.#urgent && settlement.flight.limit?.kind === 'c';
    if (urgent) this.#urgent = true;
    return urgent || this.#waiting.length === 1 || this.#waiting.length === this.#under_way();
  }

  /** When they are to be told; Infinity where there are none. */
  get due_ms(): number {
    if (this.#waiting.length === 0) return Number.POSITIVE_INFINITY;
    if (this.full) return this.#first_ms;
    const alone = this.#urgent || this.#waiting.length >= this.#under_way();
    return this.#first_ms + (alone ? SETTLE_DELAY_MS : SETTLE_DELAY_MS_MAX);
  }

  take(): Settlement[] {
    return this.#waiting.splice(0, SETTLE_MAX);
  }

  /** They were not told, and come before those that came meanwhile. */
  putBack(settlements: readonly Settlement[]): void {
    if (settlements.length > 0) this.#waiting = [...settlements, ...this.#waiting];
  }
}
