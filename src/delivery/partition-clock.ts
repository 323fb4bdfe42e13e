// A partition's clock, as near as its answers tell.
//
// An answer says a whole millisecond, cut off, that was true a while before it came: what is read from one is too early by up to a
// millisecond and the way here, never too late. So the latest of all readings is the nearest, as long as both clocks go alike.
import { type Clock, monotonicMs } from '../base/clock.ts';

/** So much may one of the two be slower: 1 ms a second, twice what clocks are corrected by. */
const DRIFT = 0.001;
/** A reading that is so much earlier than expected was slow to come, or the clock was set back. */
const BACK_MS = 5;

export class PartitionClock {
  readonly #monotonic: Clock;
  #offset_ms = 0;
  #read_ms = Number.NEGATIVE_INFINITY;

  constructor(monotonic: Clock = monotonicMs) {
    this.#monotonic = monotonic;
  }

  /** An answer that came just now says that it is `now_ms` there. */
  read(now_ms: number): void {
    const at_ms = this.#monotonic();
    const offset_ms = now_ms - at_ms;
    const expected_ms = this.#offset_ms - (at_ms - this.#read_ms) * DRIFT;
    this.#offset_ms = offset_ms < expected_ms - BACK_MS ? offset_ms : Math.max(offset_ms, expected_ms);
    this.#read_ms = at_ms;
  }

  now_ms(): number {
    return this.#monotonic() + this.#offset_ms;
  }

  /** The same moment by our own clock. */
  here_ms(there_ms: number): number {
    return there_ms - this.#offset_ms;
  }
}
