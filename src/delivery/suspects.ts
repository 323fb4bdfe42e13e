// Tasks that were in flight at every death of a thread but the last that they may see: one of them may be the cause, the others only
// stood beside it. A thread holds one at a time, from the claim that brings it until its outcome was told, so that the next death fails the
// one that caused it and nobody else.
import { monotonicMs } from '../base/clock.ts';
import { RECOVERIES_MAX } from '../base/limits.ts';
import type { Claimed } from '../store/claimed.ts';
import type { InFlight } from './in-flight.ts';

/** After so long another may start beside it: many that take half a minute each must not take hours. A claim that hangs is waited for as long. */
const ALONE_MS = 1_000;
/** One that came nevertheless is put back for about so long: that is another call to Redis, and its limiter's turn. */
const WAIT_MS = 1_000;

export class Suspects {
  /** A claim that was sent may bring one to these. */
  #asks: InFlight | null = null;
  #asked_ms = 0;
  /** What the last one is in flight with. */
  #flying: InFlight | null = null;
  #task: Claimed | null = null;
  #since_ms = 0;

  /** Whether a claim that is sent now may bring one; then no other may until it is answered. */
  mayAsk(flying: InFlight): boolean {
    const now_ms = monotonicMs();
    if (this.#holds || (this.#asks !== null && this.#asks !== flying && now_ms - this.#asked_ms < ALONE_MS)) return false;
    // One that fails again and again keeps no more than its second.
    if (this.#asks !== flying) this.#asked_ms = now_ms;
    this.#asks = flying;
    return true;
  }

  /** A claim brought these, which are in flight from now on. Where it failed (null) they may be, too, until it is repeated. */
  answered(flying: InFlight, tasks: readonly Claimed[] | null): void {
    if (tasks === null) return;
    if (this.#asks === flying) this.#asks = null;
    const task = tasks.find(isSuspect);
    if (task !== undefined && !this.#holds) this.#hold(flying, task);
  }

  /** For how long a task has to be put back that came nevertheless, by a limiter or by a claim that was repeated; 0 where it may start. */
  wait_ms(flying: InFlight, task: Claimed): number {
    if (!isSuspect(task) || task === this.#task) return 0;
    if (this.#holds) return WAIT_MS * (0.5 + Math.random());
    this.#hold(flying, task);
    return 0;
  }

  #hold(flying: InFlight, task: Claimed): void {
    this.#flying = flying;
    this.#task = task;
    this.#since_ms = monotonicMs();
  }

  get #holds(): boolean {
    if (this.#task === null || this.#flying === null || monotonicMs() - this.#since_ms >= ALONE_MS) return false;
    return this.#flying.has(this.#task.flight.name);
  }
}

function isSuspect({ recoveries }: Claimed): boolean {
  return recoveries >= RECOVERIES_MAX - 1;
}
