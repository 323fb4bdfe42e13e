// The turns of this thread's event loop, as far as there is work in them.
import { type Clock, monotonicMs } from '../base/clock.ts';

/** What comes meanwhile waits for a turn's end, and its answer for that of the next. */
const LONG_MS = 20;

export class Turns {
  readonly #ended: () => void;
  readonly #clock: Clock;
  #running = false;
  #began_ms = 0;
  #long = false;

  /** `ended` is called at the end of each turn that `work` was told of. */
  constructor(ended: () => void, clock: Clock = monotonicMs) {
    this.#ended = ended;
    this.#clock = clock;
  }

  /** There is work in this turn. */
  work(): void {
    if (this.#running) return;
    this.#running = true;
    this.#began_ms = this.#clock();
    setImmediate(() => this.#end());
  }

  /** Whether the last one was so long that more work at a time would only wait. */
  get long(): boolean {
    return this.#long;
  }

  #end(): void {
    this.#running = false;
    this.#long = this.#clock() - this.#began_ms > LONG_MS;
    // Whether the next one is shorter has to be seen, though nothing may end in it.
    if (this.#long) this.work();
    this.#ended();
  }
}
