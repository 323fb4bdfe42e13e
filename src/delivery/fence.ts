// Until when a pump may start what it has claimed: of one who is silent for longer others take over what he has.
import { type Clock, monotonicMs } from '../base/clock.ts';

/** When tasks were claimed, and how often answers had stayed away by then. */
export interface Since {
  readonly claimed_ms: number;
  readonly lapses: number;
}

export class Fence {
  readonly #fence_ms: number;
  readonly #monotonic: Clock;
  #answered_ms: number;
  #lapses = 0;

  /** Without an answer for `fence_ms` nothing more is started, nor is what was claimed before when answers come again. */
  constructor(fence_ms: number, monotonic: Clock = monotonicMs) {
    this.#fence_ms = fence_ms;
    this.#monotonic = monotonic;
    this.#answered_ms = monotonic();
  }

  /**
   * Redis has noted that this pump lives, as it was asked to at this time. Not by when the answer is read: it may have lain here while this process
   * stood still.
   */
  answered(asked_ms: number): void {
    if (this.#passed) this.#lapses += 1;
    this.#answered_ms = Math.max(this.#answered_ms, Math.min(asked_ms, this.#monotonic()));
  }

  /** Whether what was answered last was asked so long ago that others may have taken over. */
  get #passed(): boolean {
    return this.passedSince(this.#answered_ms);
  }

  /** The same of what was given out at this time. */
  passedSince(at_ms: number): boolean {
    return this.#monotonic() - at_ms > this.#fence_ms;
  }

  /** To be kept with what was claimed then, once the answer that brought it was told of. */
  since(claimed_ms: number): Since {
    return { claimed_ms, lapses: this.#lapses };
  }

  /** Whether what was claimed is still nobody else's: there were answers, and all in time. Asked right before a request is written, which may have waited long for a connection. */
  holds({ lapses }: Since): boolean {
    return lapses === this.#lapses && !this.#passed;
  }
}
