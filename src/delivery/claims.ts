// Which partitions of a thread claim now, and how much.
//
// Two claims are under way in turn, since what they may take of an origin is known only when those before were answered. A partition
// has its turn when nobody who was fed longer ago wants one: who has much in flight asks with each of his settlements, and would find
// a claim free sooner than who was idle.
//
// Where work has come since a partition's last claim it does not wait for that. It claims a little at once, and keeps its turn: what came
// may be of an account that has nothing else there, whose task would wait behind a large claim of each other partition.
import { type Clock, monotonicMs } from '../base/clock.ts';
import { CLAIM_ASIDE_MAX, CLAIM_MAX, CLAIM_PATIENCE_MS, CLAIMS_ASIDE_MAX, CLAIMS_UNDER_WAY_MAX } from '../base/limits.ts';

interface Claim {
  began_ms: number;
  /** It is beside the turns. */
  aside: boolean;
}

export class Claims<Partition> {
  readonly #clock: Clock;
  readonly #under_way = new Map<Partition, Claim>();
  #asides = 0;
  /** Who found no turn free though work had come. */
  readonly #rung = new Set<Partition>();

  constructor(clock: Clock = monotonicMs) {
    this.#clock = clock;
  }

  /** Tasks that it may claim now, as far as there are places. `rung`: work has come since its last claim; `first`: whether the turn is its own. */
  budget(partition: Partition, rung: boolean, first: () => boolean): number {
    const now_ms = this.#clock();
    for (const [other, { began_ms }] of this.#under_way) if (now_ms - began_ms > CLAIM_PATIENCE_MS) this.ended(other);
    if (this.#turnFree() && first()) return CLAIM_MAX;
    if (rung) this.#rung.add(partition);
    return this.#asideFree(partition) ? CLAIM_ASIDE_MAX : 0;
  }

  /** Whether it may hope for one. */
  free(partition: Partition): boolean {
    return this.#turnFree() || this.#asideFree(partition);
  }

  #turnFree(): boolean {
    return this.#under_way.size - this.#asides < CLAIMS_UNDER_WAY_MAX;
  }

  #asideFree(partition: Partition): boolean {
    return this.#asides < CLAIMS_ASIDE_MAX && this.#rung.has(partition);
  }

  /** With what `budget` said. */
  began(partition: Partition, budget: number): void {
    const aside = budget < CLAIM_MAX;
    this.#rung.delete(partition);
    this.#under_way.set(partition, { began_ms: this.#clock(), aside });
    if (aside) this.#asides += 1;
  }

  /** Whether it was its turn, as far as is known: one that takes long is forgotten. */
  ended(partition: Partition): boolean {
    const aside = this.#under_way.get(partition)?.aside === true;
    this.#under_way.delete(partition);
    if (aside) this.#asides -= 1;
    return !aside;
  }

  /** It claims here no more. */
  forget(partition: Partition): void {
    this.#rung.delete(partition);
  }
}
