// When a pump has something to do of itself, by this process's clock.
import { backoff_ms } from '../base/backoff.ts';
import { monotonicMs } from '../base/clock.ts';
import type { TickReply } from '../store/partition.ts';
import type { PartitionClock } from './partition-clock.ts';

const BACKOFF = { min_ms: 20, max_ms: 1_000 };

export class Agenda {
  readonly #clock: PartitionClock;
  /** The next look at the partition, which no bell need ring for. */
  #tick_ms = 0;
  /** When work is due for all that is known: that turn claims what its tick makes ready. */
  #due_ms = Number.POSITIVE_INFINITY;
  /** When a limiter of the partition has something to do. */
  #grant_ms = Number.POSITIVE_INFINITY;
  /** Turns in a row that failed. */
  #failures = 0;
  #pause_until_ms = 0;

  /** `clock` is the partition's. */
  constructor(clock: PartitionClock) {
    this.#clock = clock;
  }

  /** The earliest of what an owner, or who only settles, does. */
  next_ms(owned: boolean): number {
    return owned ? Math.min(this.#tick_ms, this.#grant_ms) : this.#tick_ms;
  }

  get failing(): boolean {
    return this.#failures > 0;
  }

  /** Nothing is done before this time; Infinity: nor ever again. */
  get pause_until_ms(): number {
    return this.#pause_until_ms;
  }

  /** A turn failed: the next one comes after a pause. */
  failed(): void {
    this.#failures += 1;
    this.#pause_until_ms = monotonicMs() + backoff_ms(this.#failures, BACKOFF, Math.random);
    this.look(this.#pause_until_ms);
  }

  answered(): void {
    this.#failures = 0;
  }

  close(): void {
    this.#pause_until_ms = Number.POSITIVE_INFINITY;
  }

  /** Now, and limiters too. */
  everything(): void {
    this.look();
    this.askLimiters();
  }

  /** A look no later than this; now, where nothing is said. */
  look(at_ms = 0): void {
    this.#tick_ms = Math.min(this.#tick_ms, at_ms);
  }

  /** Limiters are asked no later than this time. */
  askLimiters(at_ms = 0): void {
    this.#grant_ms = Math.min(this.#grant_ms, at_ms);
  }

  /** A time of the partition at which something is due; 0 = none. */
  dueAt(due_ms: number): void {
    if (due_ms === 0) return;
    this.#due_ms = Math.min(this.#due_ms, this.#clock.latest_ms(due_ms));
    this.look(this.#due_ms);
  }

  /** A look was answered: the next one comes when something is due, and `sweep_ms` later in any case. */
  ticked({ more, next_ms, now_ms }: Pick<TickReply, 'more' | 'next_ms' | 'now_ms'>, sweep_ms: number): void {
    const wait_ms = next_ms === 0 ? sweep_ms : next_ms - now_ms;
    this.look(more ? 0 : monotonicMs() + Math.min(Math.max(wait_ms, 0), sweep_ms));
    this.dueAt(next_ms);
  }

  /** Limiters were asked; they have something to do again at `next_ms` of the partition, 0 = never. A bell that rang meanwhile stands. */
  granted({ more, next_ms }: { more: boolean; next_ms: number }): void {
    if (more) this.askLimiters();
    else if (next_ms > 0) this.askLimiters(Math.max(monotonicMs(), this.#clock.latest_ms(next_ms)));
  }

  /** Nothing is looked at, until something says so. */
  clear(): void {
    this.#tick_ms = Number.POSITIVE_INFINITY;
    this.#due_ms = Number.POSITIVE_INFINITY;
  }

  /** Whether a look is due, whether work is, and whether limiters are to be asked. */
  at(now_ms: number): { tick: boolean; due: boolean; grant: boolean } {
    const tick = now_ms >= this.#tick_ms;
    return { tick, due: tick && now_ms >= this.#due_ms, grant: now_ms >= this.#grant_ms };
  }

  /** It is under way. What is told from here on may be news to the replies, and is kept beside them. */
  took({ tick, grant }: { tick: boolean; grant: boolean }): void {
    if (tick) this.clear();
    if (grant) this.#grant_ms = Number.POSITIVE_INFINITY;
  }
}
