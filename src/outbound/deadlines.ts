// Deadlines of running calls on one wheel: adding and removing are a few pointer writes, and one timer serves them all.
// An entry is called at the first tick at or after its deadline, never before it.
import type { Clock } from '../base/clock.ts';

/** One revolution is 51 s, so a usual timeout of 30 s is met on the first visit; later ones stay in their bucket for another round. */
const TICK_MS = 25;
const BUCKETS = 2048;

export interface Timed {
  /** Tick at which the entry is due; -1 while it is on no wheel. These three fields are the wheel's own. */
  due_tick: number;
  due_prev: Timed | null;
  due_next: Timed | null;
  onDeadline(): void;
}

export class Deadlines {
  readonly #clock: Clock;
  readonly #heads: (Timed | null)[] = new Array<Timed | null>(BUCKETS).fill(null);
  #size = 0;
  #tick: number;
  #timer: NodeJS.Timeout | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#tick = Math.floor(clock() / TICK_MS);
  }

  get size(): number {
    return this.#size;
  }

  /** `now_ms` is the wheel's own clock, read by the caller who needs it anyway. */
  add(entry: Timed, now_ms: number, delay_ms: number): void {
    if (this.#timer === null) {
      this.#tick = Math.floor(now_ms / TICK_MS);
      this.#timer = setInterval(() => this.#turn(), TICK_MS);
    }
    const due = Math.max(Math.ceil((now_ms + delay_ms) / TICK_MS), this.#tick + 1);
    const bucket = due % BUCKETS;
    const head = this.#heads[bucket] ?? null;
    entry.due_tick = due;
    entry.due_next = head;
    entry.due_prev = null;
    if (head !== null) head.due_prev = entry;
    this.#heads[bucket] = entry;
    this.#size++;
  }

  remove(entry: Timed): void {
    if (entry.due_tick < 0) return;
    if (entry.due_prev === null) this.#heads[entry.due_tick % BUCKETS] = entry.due_next;
    else entry.due_prev.due_next = entry.due_next;
    if (entry.due_next !== null) entry.due_next.due_prev = entry.due_prev;
    entry.due_tick = -1;
    entry.due_prev = null;
    entry.due_next = null;
    this.#size--;
  }

  /** Every entry on the wheel, in no order. */
  entries(): Timed[] {
    const all: Timed[] = [];
    for (const head of this.#heads) for (let at = head; at !== null; at = at.due_next) all.push(at);
    return all;
  }

  #turn(): void {
    const now_tick = Math.floor(this.#clock() / TICK_MS);
    const due: Timed[] = [];
    // After a long stall one revolution still visits every bucket.
    const from = Math.max(this.#tick + 1, now_tick - BUCKETS + 1);
    this.#tick = Math.max(this.#tick, now_tick);
    for (let tick = from; tick <= now_tick; tick++) {
      for (let at = this.#heads[tick % BUCKETS] ?? null; at !== null; ) {
        const next: Timed | null = at.due_next;
        if (at.due_tick <= now_tick) {
          this.remove(at);
          due.push(at);
        }
        at = next;
      }
    }
    // Called only now: an entry may add or remove others.
    for (const entry of due) entry.onDeadline();
    if (this.#size === 0 && this.#timer !== null) {
      clearInterval(this.#timer);
      this.#timer = null;
    }
  }
}
