// Tasks that were in flight at every death of a thread but the last that they may see: one of them may be the cause, the others only
// stood beside it. They start one at a time, so that the next death fails the one that caused it and nobody else.
import { monotonicMs } from '../base/clock.ts';
import { RECOVERIES_MAX } from '../base/limits.ts';
import type { RunningCall } from '../outbound/call.ts';
import type { Claimed } from '../store/claimed.ts';

/** After so long another may start beside it: many that take half a minute each must not take hours. */
const ALONE_MS = 1_000;
/** Long beside the few milliseconds from a claim to its being put back, in which a death would count for who only waits. */
const WAIT_MS = 1_000;

export class Suspects {
  #call: RunningCall | null = null;
  #began_ms = 0;

  /** After how long a task has to be asked for again; 0 where it may start. */
  wait_ms(task: Claimed): number {
    if (!isSuspect(task) || this.#call === null || this.#call.finished) return 0;
    return monotonicMs() - this.#began_ms < ALONE_MS ? WAIT_MS * (0.5 + Math.random()) : 0;
  }

  began(task: Claimed, call: RunningCall): void {
    if (!isSuspect(task)) return;
    this.#call = call;
    this.#began_ms = monotonicMs();
  }
}

function isSuspect({ recoveries }: Claimed): boolean {
  return recoveries >= RECOVERIES_MAX - 1;
}
