// Tasks that ended and are not told yet, in their order, neighbours together.
import type { EndedRun } from '../store/streams.ts';

/** A task that ended, before its result is known. */
export interface EndedTask {
  index: number;
  status: EndedRun['status'];
  at_ms: number;
  /** Not by itself; see EndedRun. */
  with_batch: boolean;
}

/** Ended tasks that wait; with more of them the rest is told by a snapshot. */
const ENDED_MAX = 100_000;

export class Ended {
  readonly #runs: { run: EndedRun; at_ms: number }[] = [];
  /** Tasks. */
  size = 0;

  get room(): number {
    return ENDED_MAX - this.size;
  }

  /** False where there is no room for it. */
  add(run: EndedRun, at_ms: number): boolean {
    if (run.tasks > this.room) return false;
    this.#runs.push({ run, at_ms });
    this.size += run.tasks;
    return true;
  }

  /** The first of them, at most `max`. */
  first(max: number): EndedTask[] {
    const tasks: EndedTask[] = [];
    for (const { run, at_ms } of this.#runs) {
      const { from, status, with_batch = false } = run;
      for (let k = 0; k < run.tasks; k++) {
        if (tasks.length === max) return tasks;
        tasks.push({ index: from + k, status, at_ms, with_batch });
      }
    }
    return tasks;
  }

  /** Forgets so many, from the first. */
  drop(count: number): void {
    this.size -= count;
    let left = count;
    while (left > 0) {
      const first = this.#runs[0];
      if (first === undefined) return;
      if (first.run.tasks > left) {
        first.run = { ...first.run, from: first.run.from + left, tasks: first.run.tasks - left };
        return;
      }
      left -= first.run.tasks;
      this.#runs.shift();
    }
  }
}

/** What of a run was not told yet, and is from now on: `told` names all that was. */
export function untold(run: Pick<EndedRun, 'from' | 'tasks'>, told: Set<number>): Pick<EndedRun, 'from' | 'tasks'>[] {
  const left: { from: number; tasks: number }[] = [];
  for (let index = run.from; index < run.from + run.tasks; index++) {
    if (told.has(index)) continue;
    told.add(index);
    const before = left.at(-1);
    if (before !== undefined && before.from + before.tasks === index) before.tasks += 1;
    else left.push({ from: index, tasks: 1 });
  }
  return left;
}
