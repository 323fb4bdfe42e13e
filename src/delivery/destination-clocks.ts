// What the clocks of partitions on other servers tell, as a relayer hears it: a message from one of them to another is dated by the clock of
// the first, and it is judged by that how late a start is.
import { type Clock, monotonicMs } from '../base/clock.ts';
import type { Clocks, Slice } from '../store/outbox.ts';
import { PartitionClock } from './partition-clock.ts';

/** A start is told to its limiter where it is later than this (late-starts.ts), so a clock need not be known better. */
const DOUBT_MS_MAX = 3;
/** On a busy machine a single answer may take long; of so many the soonest counts. */
const ASK_MAX = 3;
/** A µs, in ms. */
const US_MS = 0.001;

export class DestinationClocks implements Clocks {
  readonly #ask: (destination: number) => Promise<number>;
  readonly #monotonic: Clock;
  readonly #clocks = new Map<number, PartitionClock>();

  /** `ask`: a partition's clock, in ms. */
  constructor(ask: (destination: number) => Promise<number>, monotonic: Clock = monotonicMs) {
    this.#ask = ask;
    this.#monotonic = monotonic;
  }

  /** Asks the destination, if it was not heard of for long or never. Rejects where it does not answer. */
  async between({ destination, read_ms, source_ms, unsure_ms }: Slice): Promise<{ ahead_ms: number; unsure_ms: number }> {
    const clock = this.#clockOf(destination);
    for (let asked = 0; asked < ASK_MAX && clock.doubt_ms > DOUBT_MS_MAX; asked++) {
      const asked_ms = this.#monotonic();
      this.heard(destination, await this.#ask(destination), asked_ms);
    }
    // The source's was known to be so far ahead of ours, at least, when the messages were read.
    return { ahead_ms: clock.ahead_ms - (source_ms - read_ms), unsure_ms: unsure_ms + clock.doubt_ms };
  }

  heard(destination: number, now_ms: number, asked_ms: number): void {
    this.#clockOf(destination).heard(now_ms, asked_ms, US_MS);
  }

  #clockOf(destination: number): PartitionClock {
    let clock = this.#clocks.get(destination);
    if (clock === undefined) {
      clock = new PartitionClock(this.#monotonic);
      this.#clocks.set(destination, clock);
    }
    return clock;
  }
}
