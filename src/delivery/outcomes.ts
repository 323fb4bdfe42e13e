// Outcomes that wait to be told to Redis, and for how long: a call that tells of many costs hardly more than one that tells of few.
// While others of the partition are under way they may keep these company; where an outcome frees a slot of a limiter others wait
// for it, so it is told soon; and a task that is put back for later is told of at once, since until then a death of the thread would count for it.
import { monotonicMs } from '../base/clock.ts';
import { SETTLE_COMPANY, SETTLE_DELAY_MS, SETTLE_DELAY_MS_MAX, SETTLE_FLUSH, SETTLE_MAX } from '../base/limits.ts';
import type { Late, Settlement } from '../store/partition.ts';

/** Node's timers come up to so much too early. */
const TIMER_EARLY_MS = 1;
/** Late starts that wait to be told; beyond, limiters are not told of them. */
const LATES_MAX = 10_000;

export class Outcomes {
  readonly #under_way: () => number;
  #waiting: Settlement[] = [];
  #first_ms = 0;
  #urgent = false;
  #at_once = false;
  #lates: Late[] = [];
  #lates_ms = Number.POSITIVE_INFINITY;

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
      this.#at_once = false;
    }
    this.#waiting.push(settlement);
    const urgent = !this.#urgent && settlement.flight.limit?.kind === 'c';
    if (urgent) this.#urgent = true;
    const at_once = !this.#at_once && settlement.verdict === 'b' && settlement.delay_ms > 0;
    if (at_once) this.#at_once = true;
    return urgent || at_once || this.#waiting.length === 1 || this.#waiting.length === this.#under_way();
  }

  /** A start came later than its limiter let it; says whether the time at which that is to be told has changed. */
  late(late: Late): boolean {
    if (this.#lates.length >= LATES_MAX) return false;
    this.#lates.push(late);
    if (this.#lates.length > 1) return false;
    this.#lates_ms = monotonicMs() + SETTLE_DELAY_MS;
    return true;
  }

  takeLates(): Late[] {
    this.#lates_ms = Number.POSITIVE_INFINITY;
    return this.#lates.splice(0);
  }

  putBackLates(lates: readonly Late[]): void {
    if (lates.length === 0) return;
    this.#lates = [...lates, ...this.#lates];
    this.#lates_ms = monotonicMs() + SETTLE_DELAY_MS;
  }

  /** When something is to be told; Infinity where there is nothing. */
  get wake_ms(): number {
    return Math.min(this.due_ms, this.#lates_ms);
  }

  /** When the outcomes are to be told; Infinity where there are none. */
  get due_ms(): number {
    if (this.#waiting.length === 0) return Number.POSITIVE_INFINITY;
    const count = this.#waiting.length;
    const all = count >= this.#under_way();
    if (this.full || this.#at_once || (all && count >= SETTLE_COMPANY)) return this.#first_ms;
    return this.#first_ms + (all || this.#urgent ? SETTLE_DELAY_MS : SETTLE_DELAY_MS_MAX);
  }

  /** Whether nothing is under way that could keep them company, and they have waited for as long as that takes. */
  get complete(): boolean {
    return this.#waiting.length >= this.#under_way() && monotonicMs() + TIMER_EARLY_MS >= this.due_ms;
  }

  /** What is to be told by now. */
  takeDue(now_ms: number): Settlement[] {
    return now_ms + TIMER_EARLY_MS >= this.due_ms ? this.take() : [];
  }

  take(): Settlement[] {
    return this.#waiting.splice(0, SETTLE_MAX);
  }

  /** They were not told, and come before those that came meanwhile. */
  putBack(settlements: readonly Settlement[]): void {
    if (settlements.length > 0) this.#waiting = [...settlements, ...this.#waiting];
  }
}
