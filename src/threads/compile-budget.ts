// How soon V8 compiles a function for good: by the time spent in it, all threads alike (docs/decisions/0072-compiled-earlier.md).
//
//   V8's own ──ten seconds after the start──▶ a thirteenth ──what is done here has been done often──▶ V8's own
//                                                  ▲                                                    │
//                                                  └──────────the first of the other kind of tasks──────┘
//
// A function of a few instructions is compiled after 20,000 calls, which is half an hour at ten tasks a second; of those a task needs that is too late. What a
// task needs seldom, or a timer each second, comes after it, and is as quick as it has to be: to compile that takes a core for 1 to 10 ms, in the midst of some task.
import { setFlagsFromString } from 'node:v8';

/** V8 from Node 22 on counts calls instead, and 3,000 are enough. */
const BUDGETS = Number.parseInt(process.versions.node, 10) < 22 ? { earlier: 5_000, usual: 67_584 } : null;
/** Not yet while all that a start needs is called for the first and the last time. */
const STARTED_MS = 10_000;
/** After so many all that one needs has been called several times as often as it takes: single tasks, 40 minutes at ten a second, and those of batches. */
const SINGLES = 24_000;
const BATCHED = 150_000;

export class CompileBudget {
  readonly #set: (flag: string) => void;
  #started = false;
  #early = false;
  #singles = 0;
  #batched = 0;

  constructor(set: (flag: string) => void = setFlagsFromString) {
    this.#set = set;
  }

  /** The threads have been made. */
  started(): void {
    setTimeout(() => {
      this.#started = true;
      this.#choose();
    }, STARTED_MS).unref();
  }

  /** A single task was accepted. */
  single(): void {
    this.#singles += 1;
    if (this.#singles === 1 || this.#singles === SINGLES) this.#choose();
  }

  /** So many tasks of a batch were accepted. */
  batched(tasks: number): void {
    const before = this.#batched;
    this.#batched += tasks;
    if (before === 0 || (before < BATCHED && this.#batched >= BATCHED)) this.#choose();
  }

  #choose(): void {
    const learning = (this.#singles > 0 && this.#singles < SINGLES) || (this.#batched > 0 && this.#batched < BATCHED);
    const early = this.#started && (learning || this.#singles + this.#batched === 0);
    if (early === this.#early || BUDGETS === null) return;
    this.#early = early;
    this.#set(`--interrupt-budget=${early ? BUDGETS.earlier : BUDGETS.usual}`);
  }
}
