// Until when a pump may start what it has claimed: of one who is silent for longer others take over what he has.
import { type Clock, monotonicMs } from '../base/clock.ts';

export class Fence {
  readonly #fence_ms: number;
  readonly #monotonic: Clock;
  #answered_ms: number;
  /** What was claimed until then others may have: nothing was heard for so long after it. */
  #lapsed_ms = Number.NEGATIVE_INFINITY;

  /** Without an answer for `fence_ms` nothing more is started. */
  constructor(fence_ms: number, monotonic: Clock = monotonicMs) {
    this.#fence_ms = fence_ms;
    this.#monotonic = monotonic;
    this.#answered_ms = monotonic();
  }

  /** Redis has answered what was asked at this time. Not by when that is read: it may have lain here while this process stood still. */
  answered(asked_ms: number): void {
    if (this.passed) this.#lapsed_ms = this.#answered_ms + this.#fence_ms;
    this.#answered_ms = Math.max(this.#answered_ms, Math.min(asked_ms, this.#monotonic()));
  }

  /** Whether what was answered last was asked so long ago that others may have taken over. */
  get passed(): boolean {
    return this.passedSince(this.#answered_ms);
  }

  /** The same of what was given out at this time. */
  passedSince(at_ms: number): boolean {
    return this.#monotonic() - at_ms > this.#fence_ms;
  }

  /** Whether what was claimed at this time is still nobody else's: there were answers, and all in time. */
  holds(claimed_ms: number): boolean {
    return claimed_ms > this.#lapsed_ms && !this.passed;
  }
}
