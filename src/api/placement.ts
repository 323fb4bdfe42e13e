// Which partition new work goes to.
import { monotonicMs } from '../base/clock.ts';

/** Single tasks an account may send to one partition in a second before the next ones go to another. */
const TRAY_TASKS_A_SECOND = 1_000;
const ACCOUNTS_MAX = 10_000;

export class Placement {
  readonly #partitions: number;
  #next: number;
  readonly #second = new Map<string, number>();
  #second_began_ms = 0;

  constructor(partitions: number) {
    this.#partitions = partitions;
    this.#next = Math.floor(Math.random() * partitions);
  }

  /** For a batch: each partition in turn. */
  next(): number {
    this.#next = (this.#next + 1) % this.#partitions;
    return this.#next;
  }

  /** For `tasks` single tasks: few share one tray, many spread over all partitions. */
  forTray(account_id: string, tasks: number): number {
    const now_ms = monotonicMs();
    if (now_ms - this.#second_began_ms > 1_000 || this.#second.size > ACCOUNTS_MAX) {
      this.#second.clear();
      this.#second_began_ms = now_ms;
    }
    const count = this.#second.get(account_id) ?? 0;
    this.#second.set(account_id, count + tasks);
    const start = Number.parseInt(account_id, 36) % this.#partitions;
    return (start + Math.floor(count / TRAY_TASKS_A_SECOND)) % this.#partitions;
  }
}
