// What time it is in a partition, as near as answers can tell.
//
// The script that an answer comes from ran between question and answer, and tells its time in whole ms. So each answer bounds what
// that clock is ahead of ours, and all of them together bound it to less than a millisecond, however long single ones take. Answers
// that contradict the bounds tell of a clock that was set, or of another one.
import { type Clock, monotonicMs } from '../base/clock.ts';

/** Two clocks run apart by no more than this; those that are steered by NTP by half of it. */
const DRIFT = 1e-3;

export class PartitionClock {
  readonly #monotonic: Clock;
  /** What it is ahead of ours, at least and at most. */
  #least_ms = 0;
  #most_ms = 0;
  #heard_ms = Number.NEGATIVE_INFINITY;

  constructor(monotonic: Clock = monotonicMs) {
    this.#monotonic = monotonic;
  }

  /** An answer to what was asked then has just come; it tells the time in whole ms, or finer. */
  heard(now_ms: number, asked_ms: number, unit_ms = 1): void {
    const heard_ms = this.#monotonic();
    const [least_ms, most_ms] = [now_ms - heard_ms, now_ms + unit_ms - asked_ms];
    const drift_ms = (heard_ms - this.#heard_ms) * DRIFT;
    this.#heard_ms = heard_ms;
    this.#least_ms = Math.max(this.#least_ms - drift_ms, least_ms);
    this.#most_ms = Math.min(this.#most_ms + drift_ms, most_ms);
    if (this.#least_ms > this.#most_ms) [this.#least_ms, this.#most_ms] = [least_ms, most_ms];
  }

  /** It is that late by now, at least. */
  now_ms(): number {
    return this.#monotonic() + this.#least_ms;
  }

  /** How much later it may be. */
  get unsure_ms(): number {
    return this.#most_ms - this.#least_ms;
  }

  /** How far it is ahead of this process's clock at most; Infinity where nothing was heard of it yet. */
  get ahead_ms(): number {
    const silent_ms = this.#monotonic() - this.#heard_ms;
    return silent_ms === Number.POSITIVE_INFINITY ? silent_ms : this.#most_ms + silent_ms * DRIFT;
  }

  /** How much less that may be; Infinity where nothing was heard of it yet. */
  get doubt_ms(): number {
    const silent_ms = this.#monotonic() - this.#heard_ms;
    return silent_ms === Number.POSITIVE_INFINITY ? silent_ms : this.unsure_ms + 2 * silent_ms * DRIFT;
  }

  /** Whether it was ever heard. */
  get known(): boolean {
    return this.#heard_ms > Number.NEGATIVE_INFINITY;
  }

  /** Messages from the partition with what it is by now, as they tell it. */
  dated<T>(messages: readonly T[]): (T & { read_ms: number; source_ms: number; unsure_ms: number })[] {
    const dated = { read_ms: this.#monotonic(), source_ms: this.now_ms(), unsure_ms: this.unsure_ms };
    return messages.map((message) => ({ ...message, ...dated }));
  }

  /** When, by this process's clock, it is that late at the latest. */
  latest_ms(at_ms: number): number {
    return at_ms - this.#least_ms;
  }

  /** And at the earliest. */
  earliest_ms(at_ms: number): number {
    return at_ms - this.#most_ms;
  }
}
