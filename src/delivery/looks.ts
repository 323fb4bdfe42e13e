// When a partition is looked at although nobody rang: soon where something moves, seldom where there is nothing at all.
//
// Whatever makes work ready, due or in flight rings the bell in the script that does it, and the subscriber tells where bells may
// have been lost; so a look without one is the second net. From the first bell on it is as close as ever: others may have taken what
// that one rang for, and may die with it.
import { monotonicMs } from '../base/clock.ts';

/** Who owned a partition before may not know yet that he does not, and parks work there: for so long it is looked at so often. */
const OVERLAP_MS = 1_500;
const OVERLAP_LOOK_MS = 250;
/** Where nothing moves, a look every other sweep is enough. */
const CALM_SWEEPS = 2;
/** And where look after look found nothing at all, after up to so many: a minute. */
const EMPTY_SWEEPS_MAX = 12;

export class Looks {
  readonly #sweep_ms: number;
  #owned_ms = Number.NEGATIVE_INFINITY;
  /** Looks in a row that found nothing, without a bell between them. */
  #empty = 0;

  constructor(sweep_ms: number) {
    this.#sweep_ms = sweep_ms;
  }

  owned(): void {
    this.#owned_ms = monotonicMs();
    this.#empty = 0;
  }

  /** A bell rang; returns the time to which the next look comes forward. */
  heard_ms(): number {
    this.#empty = 0;
    return monotonicMs() + this.#sweep_ms * CALM_SWEEPS;
  }

  /** How long after a look the next one is, at the latest. `moves`: work is in flight or ready; `empty`: the partition holds none. */
  wait_ms(moves: boolean, empty: boolean): number {
    if (monotonicMs() - this.#owned_ms < OVERLAP_MS) return Math.min(OVERLAP_LOOK_MS, this.#sweep_ms);
    if (moves || !empty) this.#empty = 0;
    if (moves) return this.#sweep_ms;
    if (!empty) return this.#sweep_ms * CALM_SWEEPS;
    return this.#sweep_ms * Math.min(EMPTY_SWEEPS_MAX, CALM_SWEEPS * 2 ** Math.min(this.#empty++, EMPTY_SWEEPS_MAX));
  }
}
