// One row for each kind of limiter, and form of one: what its config can be, and a plain definition of what it allows, kept by hand
// from all starts so far. The tests hold the scripts against these.
import type { LimiterType } from '../../src/schema/limiters/kinds.ts';
import type { LimiterConfig } from '../../src/store/limiter-machines.ts';
import type { Chance } from './chance.ts';

/** A task that was let start, at `at` µs of physical time. */
export interface Start {
  at: number;
  cost: number;
  /** When its slot is lost, where nobody frees it. */
  lease_us: number;
}

export interface Definition {
  /** Whether these starts (none of them given back), the last of them at `at`, are allowed. */
  allows(starts: readonly Start[], at: number): boolean;
  /** What a start at `at` could cost at least without being refused by a precise implementation; Infinity: anything up to the config's maximum. */
  free(starts: readonly Start[], at: number): number;
  /** From `at` on the new config holds. */
  patch(config: LimiterConfig, starts: readonly Start[], at: number): void;
  /** Used units are forgotten. */
  reset(at: number): void;
  /** The clock was set; time is physical here. */
  stepped?(at: number): void;
  charge?(difference: number, at: number): void;
}

export interface Row {
  name: string;
  type: LimiterType;
  config(chance: Chance): LimiterConfig;
  define(config: LimiterConfig): Definition;
  /** Whether what is used comes back by time alone. */
  timed: boolean;
  /** Lets five tasks start at once. */
  five: LimiterConfig;
}

const S = 1_000_000;

function intervalOf(config: LimiterConfig): number {
  return (config.interval ?? 0) * S;
}

/** Any span of an interval. */
class Window implements Definition {
  #config: LimiterConfig;
  #since = Number.NEGATIVE_INFINITY;

  constructor(config: LimiterConfig) {
    this.#config = config;
  }

  #within(starts: readonly Start[], at: number, slack_us: number): number {
    const from = Math.max(at - intervalOf(this.#config) - slack_us, this.#since);
    return starts.filter((start) => start.at >= from && start.at <= at).length;
  }

  allows(starts: readonly Start[], at: number): boolean {
    return this.#within(starts, at, 0) <= (this.#config.limit ?? 0);
  }

  free(starts: readonly Start[], at: number): number {
    // A start may count for one slice longer than it must.
    const slice_us = Math.ceil(intervalOf(this.#config) / 1000 / 1024) * 1000;
    return Math.max(0, (this.#config.limit ?? 0) - this.#within(starts, at, 2 * slice_us));
  }

  patch(config: LimiterConfig, _: readonly Start[], at: number): void {
    // What left a shorter window is forgotten.
    if (intervalOf(config) > intervalOf(this.#config)) this.#since = Math.max(this.#since, at - intervalOf(this.#config));
    this.#config = config;
  }

  reset(at: number): void {
    this.#since = at + 0.5;
  }
}

/** Each interval since the epoch; the test's physical time is the clock's. */
class Aligned implements Definition {
  #config: LimiterConfig;
  #since = Number.NEGATIVE_INFINITY;
  /** Carried into the interval in which the config changed. */
  #carried = 0;
  #stepped = 0;

  constructor(config: LimiterConfig) {
    this.#config = config;
  }

  #used(starts: readonly Start[], at: number): number {
    const interval = intervalOf(this.#config);
    const window = Math.floor(at / interval);
    const carried = Math.floor(this.#since / interval) === window ? this.#carried : 0;
    return carried + starts.filter((start) => start.at > this.#since && Math.floor(start.at / interval) === window).length;
  }

  /** From then on intervals are not those of physical time: no span holds more than two of them. */
  stepped(at: number): void {
    this.#stepped = at;
  }

  allows(starts: readonly Start[], at: number): boolean {
    if (this.#stepped > 0) {
      const from = Math.max(this.#since, at - intervalOf(this.#config));
      return (
        starts.filter((start) => start.at > from && start.at > this.#stepped).length <= 2 * Math.max(this.#config.limit ?? 0, this.#carried)
      );
    }
    return this.#used(starts, at) <= Math.max(this.#config.limit ?? 0, this.#carried);
  }

  free(starts: readonly Start[], at: number): number {
    return Math.max(0, (this.#config.limit ?? 0) - this.#used(starts, at));
  }

  patch(config: LimiterConfig, starts: readonly Start[], at: number): void {
    if (this.#stepped > 0) this.#stepped = at + 0.5;
    if (config.interval === this.#config.interval) {
      this.#config = config;
      return;
    }
    this.#carried = this.#used(starts, at);
    this.#since = at + 0.5;
    this.#config = config;
  }

  reset(at: number): void {
    this.#carried = 0;
    this.#since = at + 0.5;
  }
}

/** A level in units · interval, so that it is exact. */
class Level implements Definition {
  #capacity = 0n;
  #rate = 0n;
  #interval = 1n;
  #since = 0;
  #from = 0n;
  #charges: { at: number; cost: number }[] = [];

  constructor(config: LimiterConfig) {
    this.#set(config);
  }

  #set(config: LimiterConfig): void {
    this.#capacity = BigInt(config.capacity ?? 0);
    this.#rate = BigInt(config.drain_rate ?? config.refill_rate ?? 0);
    this.#interval = BigInt(intervalOf(config));
  }

  /** The level at `at`, and the highest after any start. */
  #run(starts: readonly Start[], at: number): { level: bigint; highest: bigint } {
    let level = this.#from;
    let last = this.#since;
    let highest = 0n;
    const all = [...starts.map((start) => ({ ...start, counts: true })), ...this.#charges.map((one) => ({ ...one, counts: false }))];
    all.sort((a, b) => a.at - b.at);
    for (const { at: time, cost, counts } of all) {
      if (time <= this.#since) continue;
      level -= BigInt(Math.ceil(time - last)) * this.#rate;
      if (level < 0n) level = 0n;
      last = Math.ceil(time);
      level += BigInt(cost) * this.#interval;
      if (level < 0n) level = 0n;
      if (counts && level > highest) highest = level;
      if (!counts && level > 2n * this.#capacity * this.#interval) level = 2n * this.#capacity * this.#interval;
    }
    level -= BigInt(Math.max(0, Math.ceil(at - last))) * this.#rate;
    return { level: level < 0n ? 0n : level, highest };
  }

  allows(starts: readonly Start[], at: number): boolean {
    return this.#run(starts, at).highest <= this.#capacity * this.#interval;
  }

  free(starts: readonly Start[], at: number): number {
    // Counted in ms where numbers are large.
    const coarse = Number(this.#rate * this.#interval) > 9e15;
    const { level } = this.#run(starts, coarse ? at - 2000 : at);
    // What drips in within 2 ms, a quarter of all at most, is left in a bucket that is not empty.
    const guard = level === 0n ? 0 : Math.floor(Math.min((Number(this.#rate) / Number(this.#interval)) * 2000, Number(this.#capacity) / 4));
    return Math.max(0, Number((this.#capacity * this.#interval - level) / this.#interval) - guard);
  }

  patch(config: LimiterConfig, starts: readonly Start[], at: number): void {
    const { level } = this.#run(starts, at);
    const units = level / this.#interval;
    const rest = level % this.#interval;
    const before = this.#interval;
    this.#set(config);
    this.#from = units * this.#interval + (rest * this.#interval) / before;
    if (this.#from > this.#capacity * this.#interval) this.#from = this.#capacity * this.#interval;
    this.#since = at + 0.5;
    this.#charges = [];
  }

  reset(at: number): void {
    this.#from = 0n;
    this.#since = at + 0.5;
    this.#charges = [];
  }

  charge(difference: number, at: number): void {
    this.#charges.push({ at, cost: difference });
  }
}

/** At the same time. */
class Slots implements Definition {
  #limit: number;

  constructor(config: LimiterConfig) {
    this.#limit = config.limit ?? 0;
  }

  #held(starts: readonly Start[], at: number): number {
    return starts.filter((start) => start.lease_us > at).length;
  }

  allows(starts: readonly Start[], at: number): boolean {
    return this.#held(starts, at) <= this.#limit;
  }

  free(starts: readonly Start[], at: number): number {
    // The end of a lease is kept in ms.
    return Math.max(0, this.#limit - starts.filter((start) => start.lease_us + 3000 > at).length);
  }

  patch(config: LimiterConfig): void {
    this.#limit = config.limit ?? 0;
  }

  reset(): void {}
}

const interval = (chance: Chance): number => chance.pick([1, 1, 2, 3, 7, 60, 3600, 2_592_000]);
const units = (chance: Chance): number => chance.pick([1, 2, 3, 5, 10, 17, 100, 1000]);

export const ROWS: readonly Row[] = [
  {
    name: 'window',
    type: 'window',
    config: (chance) => ({ limit: units(chance), interval: interval(chance) }),
    define: (config) => new Window(config),
    timed: true,
    five: { limit: 5, interval: 10 },
  },
  {
    name: 'bucket, fixed windows',
    type: 'bucket',
    config: (chance) => ({ limit: units(chance), interval: interval(chance) }),
    define: (config) => new Aligned(config),
    timed: true,
    five: { limit: 5, interval: 10 },
  },
  {
    name: 'bucket, tokens',
    type: 'bucket',
    config: (chance) => ({ capacity: units(chance), refill_rate: units(chance), interval: interval(chance) }),
    define: (config) => new Level(config),
    timed: true,
    five: { capacity: 5, refill_rate: 1, interval: 10 },
  },
  {
    name: 'leaky',
    type: 'leaky',
    config: (chance) => ({ capacity: units(chance), drain_rate: chance.pick([1, 3, 7, 10, 999, 1_000_000]), interval: interval(chance) }),
    define: (config) => new Level(config),
    timed: true,
    five: { capacity: 5, drain_rate: 1, interval: 10 },
  },
  {
    name: 'points',
    type: 'points',
    config: (chance) => ({ capacity: units(chance), refill_rate: chance.pick([1, 3, 10, 997]), interval: interval(chance) }),
    define: (config) => new Level(config),
    timed: true,
    five: { capacity: 5, refill_rate: 1, interval: 10 },
  },
  {
    name: 'concurrent',
    type: 'concurrent',
    config: (chance) => (chance.one(3) ? { limit: units(chance), lock_timeout: chance.pick([1, 100, 1000]) } : { limit: units(chance) }),
    define: (config) => new Slots(config),
    timed: false,
    five: { limit: 5 },
  },
];
