// Which partition new work goes to.
import { monotonicMs } from '../base/clock.ts';
import { changedNothing, isUnavailable } from '../store/errors.ts';

/** Single tasks an account may send to one partition in a second before the next ones go to another. */
const TRAY_TASKS_A_SECOND = 1_000;
const ACCOUNTS_MAX = 10_000;
/** A partition that could not serve is tried again after this. */
const AVOID_MS = 1_000;

export class Placement {
  readonly #partitions: { readonly now: number };
  #next: number;
  readonly #second = new Map<string, number>();
  #second_began_ms = 0;
  /** Partitions that could not serve, and until when new work stays away from them. */
  readonly #avoided = new Map<number, number>();

  constructor(partitions: { readonly now: number }) {
    this.#partitions = partitions;
    this.#next = Math.floor(Math.random() * partitions.now);
  }

  /** For a batch: each partition in turn. */
  next(): number {
    this.#next = this.#unless((this.#next + 1) % this.#partitions.now);
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
    const start = Number.parseInt(account_id, 36) % this.#partitions.now;
    return this.#unless((start + Math.floor(count / TRAY_TASKS_A_SECOND)) % this.#partitions.now);
  }

  /**
   * Makes something new in a partition that `choose` names. Where that one says that it can do nothing now (its slot moves,
   * its master fails over), once more in another; where it does not say so the work may have been done, and is not repeated.
   */
  async place<T>(choose: () => number, make: (partition: number) => Promise<T>): Promise<T> {
    const partition = choose();
    try {
      return await make(partition);
    } catch (error) {
      if (!this.#failed(partition, error) || !changedNothing(error)) throw error;
    }
    const other = choose();
    try {
      return await make(other);
    } catch (error) {
      this.#failed(other, error);
      throw error;
    }
  }

  /** Keeps new work away from the partition where the error says that it cannot serve; whether it does. */
  #failed(partition: number, error: unknown): boolean {
    if (!isUnavailable(error)) return false;
    this.#avoided.set(partition, monotonicMs() + AVOID_MS);
    return true;
  }

  /** The partition, or the next one that is not avoided; where all are, there is no use in choosing. */
  #unless(partition: number): number {
    if (this.#avoided.size === 0) return partition;
    const now_ms = monotonicMs();
    for (const [avoided, until_ms] of this.#avoided) if (until_ms <= now_ms) this.#avoided.delete(avoided);
    for (let i = 0; i < this.#partitions.now; i++) {
      const candidate = (partition + i) % this.#partitions.now;
      if (!this.#avoided.has(candidate)) return candidate;
    }
    return partition;
  }
}
