// Tasks that were in flight at every death of a thread but the last that they may see: one of them may be the cause, the others only
// stood beside it. A thread holds one at a time, from the claim that brings it until its outcome was told, so that the next death fails the
// one that caused it and nobody else.
import { monotonicMs } from '../base/clock.ts';
import { RECOVERIES_MAX } from '../base/limits.ts';
import type { Claimed } from '../store/claimed.ts';
import type { InFlight } from './in-flight.ts';

/** After so long another may start beside it: many that take half a minute each must not take hours. */
const ALONE_MS = 1_000;
/** Those that a claim may not bring are asked for again about so long apart. */
const PAUSE_MS = 100;
/** One that came nevertheless is put back for about so long: that is another call to Redis, and its limiter's turn. */
const WAIT_MS = 1_000;

export class Suspects {
  /** Whose claim under way may bring one. */
  #asks: InFlight | null = null;
  #flying: InFlight | null = null;
  #task: Claimed | null = null;
  #since_ms = 0;

  /** For a claim that is sent: 0 where it may bring one, else after how long they are to be asked for again. */
  ask(flying: InFlight): number {
    if (this.#asks !== null || this.#holds) return aboutMs(PAUSE_MS);
    this.#asks = flying;
    return 0;
  }

  /** It brought these, or failed. They are in flight from now on. */
  answered(flying: InFlight, tasks: readonly Claimed[]): void {
    if (this.#asks === flying) this.#asks = null;
    const task = tasks.find(isSuspect);
    if (task !== undefined && !this.#holds) this.#hold(flying, task);
  }

  /** After how long a task has to be asked for again that came nevertheless, by a limiter or by a claim that was repeated; 0 where it may start. */
  wait_ms(flying: InFlight, task: Claimed): number {
    if (!isSuspect(task) || task === this.#task) return 0;
    if (this.#holds) return aboutMs(WAIT_MS);
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

function aboutMs(ms: number): number {
  return Math.round(ms * (0.5 + Math.random()));
}
