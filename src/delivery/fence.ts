// Until when a pump may start what it has claimed: of one who is silent for longer others take over what he has.
import { monotonicMs } from '../base/clock.ts';

export class Fence {
  readonly #fence_ms: number;
  #answered_ms = monotonicMs();

  /** Without an answer for `fence_ms` nothing more is started. */
  constructor(fence_ms: number) {
    this.#fence_ms = fence_ms;
  }

  /** Redis has answered what was asked at this time. Not by when that is read: it may have lain here while this process stood still. */
  answered(asked_ms: number): void {
    this.#answered_ms = Math.max(this.#answered_ms, Math.min(asked_ms, monotonicMs()));
  }

  /** Whether what was answered last was asked so long ago that others may have taken over. */
  get passed(): boolean {
    return this.passedSince(this.#answered_ms);
  }

  /** The same of what was given out at this time. */
  passedSince(at_ms: number): boolean {
    return monotonicMs() - at_ms > this.#fence_ms;
  }
}
