// The places of a thread for tasks in flight, and its claims that are under way for them.
import { monotonicMs } from '../base/clock.ts';
import { CLAIM_MAX, CLAIM_PATIENCE_MS, CLAIMS_UNDER_WAY_MAX, NOTIFICATIONS_SHARE } from '../base/limits.ts';

export class Places {
  readonly #max: number;
  /** Not reserved. */
  #free: number;
  /** Places that tasks have; what is reserved for claims under way is not in it. */
  #taken = 0;
  /** For notifications, neither taken nor reserved; they are among all places. */
  #notes: number;
  /** Claims under way, by who claims, and when they began. */
  readonly #claims = new Map<object, number>();

  constructor(max: number) {
    this.#max = max;
    this.#free = max;
    this.#notes = Math.max(1, Math.floor(max * NOTIFICATIONS_SHARE));
  }

  get taken(): number {
    return this.#taken;
  }

  /** Those that no task has. */
  get left(): number {
    return Math.max(0, this.#max - this.#taken);
  }

  /** Whether more than a claim would still fit. */
  get plenty(): boolean {
    return this.#free > Math.min(CLAIM_MAX, this.#max / 2);
  }

  get has_notes(): boolean {
    return this.#notes > 0;
  }

  /** Up to `wanted`, at least `floor`; none while too many claims are under way. */
  reserve(claimant: object, wanted: number, floor: number): number {
    const now_ms = monotonicMs();
    for (const [other, began_ms] of this.#claims) if (now_ms - began_ms > CLAIM_PATIENCE_MS) this.#claims.delete(other);
    if (this.#claims.size >= CLAIMS_UNDER_WAY_MAX) return 0;
    const places = Math.max(Math.min(wanted, this.#free), Math.min(wanted, floor), 0);
    this.#free -= places;
    if (places > 0) this.#claims.set(claimant, now_ms);
    return places;
  }

  /** A claim ended, answered or not. */
  claimed(claimant: object): void {
    this.#claims.delete(claimant);
  }

  /** Whether another claim may begin; one who starves gets places whatever others have. */
  mayClaim(starving: boolean): boolean {
    return this.#claims.size < CLAIMS_UNDER_WAY_MAX && (this.#free > 0 || starving);
  }

  /** One that comes without a claim takes its place. */
  take(): void {
    this.#free -= 1;
  }

  /** So many tasks begin, in places that were reserved or taken. */
  began(tasks: number): void {
    this.#taken += tasks;
  }

  ended(): void {
    this.#taken -= 1;
  }

  release(places: number): void {
    this.#free += places;
  }

  reserveNotes(wanted: number): number {
    const notes = Math.max(0, Math.min(wanted, this.#notes));
    this.#notes -= notes;
    return notes;
  }

  releaseNotes(notes: number): void {
    this.#notes += notes;
  }
}
