// A look at what calls wait for: whether their thread has no time, and how quickly the host answers meanwhile.
import { type EventLoopUtilization, performance } from 'node:perf_hooks';
import type { Clock } from '../base/clock.ts';

const LOOK_MS = 10;
/** A busy thread works for more of its time than this. */
const BUSY_SHARE = 0.7;

export interface Seen {
  busy: boolean;
  /** Of the host, in LOOK_MS. */
  answers: number;
}

export class Look {
  readonly #clock: Clock;
  readonly #answered: () => number;
  readonly #done: (seen: Seen) => void;
  #timer: NodeJS.Timeout | null = null;

  /** `answered`: how many answers there were so far. `done` is called some time after `begin`. */
  constructor(clock: Clock, answered: () => number, done: (seen: Seen) => void) {
    this.#clock = clock;
    this.#answered = answered;
    this.#done = done;
  }

  /** Begins one, unless one is under way. */
  begin(): void {
    if (this.#timer !== null) return;
    const [began_ms, answered, used] = [this.#clock(), this.#answered(), performance.eventLoopUtilization()];
    // Answers that lie there when the timer comes are read first.
    this.#timer = setTimeout(() => setImmediate(() => this.#end(began_ms, answered, used)), LOOK_MS);
  }

  #end(began_ms: number, answered: number, used: EventLoopUtilization): void {
    this.#timer = null;
    const looks = (this.#clock() - began_ms) / LOOK_MS;
    const busy = performance.eventLoopUtilization(used).utilization > BUSY_SHARE;
    this.#done({ busy, answers: (this.#answered() - answered) / looks });
  }
}
