// Collects what is young in a thread while nobody waits for it (docs/decisions/0076-nothing-beside-a-task-that-comes-alone.md).
//
// V8 makes the young space of a thread that has little to do as small as it goes, 1 MB, and collects it when it is full: while a task is worked on, since that is what fills it.
// At each collection it gives half of that space back to the system, too, so that the next tasks touch each page of it for the first time. Garbage beside the collection keeps it from both.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { makeGarbage } from './young-space.ts';

/** A task leaves about 50 KB in each thread that works on it. */
const TASKS = 8;
/** Who comes next comes later, as a rule. */
const QUIET_MS = 30;

export class QuietCollector {
  readonly #collect: () => void;
  #timer: NodeJS.Timeout | null = null;
  /** Since the last collection; and when the timer was set. */
  #tasks = 0;
  #seen = 0;

  constructor(collect: () => void = minorCollector()) {
    this.#collect = collect;
  }

  /** The thread has worked on a task. */
  used(): void {
    this.#tasks += 1;
    if (this.#timer !== null || this.#tasks < TASKS) return;
    this.#seen = this.#tasks;
    this.#timer = setTimeout(() => this.#look(), QUIET_MS).unref();
  }

  #look(): void {
    this.#timer = null;
    // Another one came meanwhile: the thread is busy, and what it leaves is collected as it comes.
    if (this.#tasks !== this.#seen) return;
    this.#tasks = 0;
    makeGarbage();
    this.#collect();
  }
}

/** Collects the young space of the thread that calls it, in 0.3 to 1 ms. */
export function minorCollector(): () => void {
  // Node has no call for it. The flag makes one for contexts that are made from then on, and takes nothing from others.
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('globalThis.gc') as ((options: { type: 'minor' }) => void) | undefined;
  // A Node without it collects when it is full.
  return () => collect?.({ type: 'minor' });
}
