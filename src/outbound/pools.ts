// All origins, and the budget of connections that they share.
import type { Clock } from '../base/clock.ts';
import type { EgressPolicy } from './addresses.ts';
import type { Connector, Opening } from './connector.ts';
import { Origin } from './origin.ts';
import { Pace } from './pace.ts';

/** Beyond so many the one that is longest at rest is forgotten, where one is. */
export const ORIGINS_MAX = 4_096;

export interface PoolsOptions {
  connections_per_origin_max: number;
  connections_max: number;
  policy: EgressPolicy;
  monotonic: Clock;
  connectorFor: (slot: Opening) => Connector;
}

export class Pools {
  readonly options: PoolsOptions;
  readonly #origins = new Map<string, Origin>();
  /** Origins with nothing in flight, the longest at rest first. */
  readonly resting = new Set<Origin>();
  /** Origins where calls wait although the origin's own bound leaves room, in turn. */
  readonly starved = new Set<Origin>();
  readonly pace = new Pace();
  connections = 0;
  free = 0;
  closed = false;

  constructor(options: PoolsOptions) {
    this.options = options;
  }

  get origins(): number {
    return this.#origins.size;
  }

  /** Origins with calls in flight may be more than the bound: the caller bounds those. */
  origin(url: string): Origin {
    const known = this.#origins.get(url);
    if (known !== undefined) return known;
    while (this.#origins.size >= ORIGINS_MAX) {
      const oldest = first(this.resting);
      if (oldest === null) break;
      void oldest.closeUnused();
      this.resting.delete(oldest);
      this.#origins.delete(oldest.url);
    }
    const origin = new Origin(url, this);
    this.#origins.set(url, origin);
    this.resting.add(origin);
    return origin;
  }

  /** May one more be opened without closing another? */
  hasBudget(): boolean {
    return this.connections < this.options.connections_max;
  }

  /** May one more connection be opened? Closes a free one elsewhere for it where the budget is used up. */
  hasRoom(): boolean {
    if (this.hasBudget()) return true;
    if (this.free === 0) return false;
    const donor = firstWithFree(this.resting) ?? firstWithFree(this.#origins.values());
    donor?.closeOne();
    return donor !== null;
  }

  /** Should this origin, which has just finished a call, leave the connection to one that waits for a share? */
  owes(origin: Origin): boolean {
    if (this.starved.size === 0) return false;
    const next = this.#nextStarved();
    if (next === null || next === origin) return false;
    // Shares even out; where origins outnumber connections, they take turns.
    return origin.waiting.size === 0 || next.connections === 0 || origin.connections > next.connections + 1;
  }

  /** A connection was given up: another may be opened, by a starved origin, or else by `origin` for those that wait there. */
  feed(origin: Origin): void {
    if (this.closed || !this.hasBudget()) return;
    const next = this.#nextStarved();
    if (next !== null) {
      this.starved.delete(next);
      next.serve();
    } else if (origin.waiting.size > 0 && origin.mayOpen()) origin.serve();
  }

  /** Every call has ended by now. */
  async close(): Promise<void> {
    this.closed = true;
    const closed = [...this.#origins.values()].map((origin) => origin.closeUnused());
    this.#origins.clear();
    this.resting.clear();
    this.starved.clear();
    await Promise.all(closed);
  }

  #nextStarved(): Origin | null {
    for (const origin of this.starved) {
      if (origin.waiting.size > 0 && origin.mayOpen()) return origin;
      this.starved.delete(origin);
    }
    return null;
  }
}

function first<T>(items: Iterable<T>): T | null {
  for (const item of items) return item;
  return null;
}

function firstWithFree(origins: Iterable<Origin>): Origin | null {
  for (const origin of origins) if (origin.free.length > 0) return origin;
  return null;
}
