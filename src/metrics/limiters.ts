// Series of single limiters, of which there may be any number: the most used have some of their own, the others one together.
//
//   thread: LimiterTally, counts since the last message ──▶ main: LimiterTop, one table for the process ──▶ limiter_top_…
//
// What is counted goes to one series, when it is counted, and stays there. A limiter that comes among the most used begins at
// nothing, and one that leaves takes its series with it, so no rate ever sees old counts as new ones.
import { bucketOf, type Counter, type Gauge, type Histogram, type Metrics } from './registry.ts';
import { METRICS } from './table.ts';

/** What one look at a limiter's line tells. `waits`: ms, tasks, ms, tasks, … of those that were granted. */
export interface LimiterLook {
  lane: string;
  /** The account's id; '' where the limiter's record is lost, as its name. */
  account: string;
  name: string;
  granted: number;
  expired: number;
  reclaimed: number;
  waiting: number;
  waits: readonly number[];
}

/** Looks of one limiter, added up; structured-cloneable. `waits` has seconds and tasks of each bucket. */
export interface LimiterCounts {
  lane: string;
  account: string;
  name: string;
  granted: number;
  expired: number;
  reclaimed: number;
  waiting: number;
  waits: number[];
}

/** Limiters with series of their own. */
export const LIMITERS_NAMED_MAX = 50;
/** Limiters of one message, beyond which the rest is counted as one; and those whose use is remembered. */
const LIMITERS_MAX = 1_000;
/** Use counts half after so long. */
const HALF_LIFE_MS = 600_000;
/** A limiter takes another's place where it is used so much more, so that two alike do not take turns. */
const AHEAD = 1.5;
const BUCKETS = METRICS.limiter_top_wait_seconds.buckets;
const OTHERS = { account: '', limiter: 'other' } as const;

/** In a thread: what its limiters did since it was last drained. */
export class LimiterTally {
  #counts = new Map<string, LimiterCounts>();

  add(look: LimiterLook): void {
    const counts = this.#of(look);
    counts.granted += look.granted;
    counts.expired += look.expired;
    counts.reclaimed += look.reclaimed;
    counts.waiting = look.waiting;
    for (let i = 0; i < look.waits.length; i += 2) {
      const [wait_s, tasks] = [(look.waits[i] ?? 0) / 1000, look.waits[i + 1] ?? 0];
      const at = bucketOf(BUCKETS, wait_s) * 2;
      counts.waits[at] = (counts.waits[at] ?? 0) + wait_s * tasks;
      counts.waits[at + 1] = (counts.waits[at + 1] ?? 0) + tasks;
    }
  }

  drain(): LimiterCounts[] {
    const counts = [...this.#counts.values()];
    this.#counts = new Map();
    return counts;
  }

  #of({ lane, account, name }: LimiterLook): LimiterCounts {
    const crowded = this.#counts.size >= LIMITERS_MAX && !this.#counts.has(lane);
    const key = crowded || account === '' ? '' : lane;
    let counts = this.#counts.get(key);
    if (counts === undefined) {
      const waits = new Array<number>(BUCKETS.length * 2 + 2).fill(0);
      const named = key === '' ? { lane: '', account: '', name: '' } : { lane, account, name };
      counts = { ...named, granted: 0, expired: 0, reclaimed: 0, waiting: 0, waits };
      this.#counts.set(key, counts);
    }
    return counts;
  }
}

interface Series {
  grants: Counter;
  timeouts: Counter;
  reclaimed: Counter;
  waits: Histogram;
}

interface Known {
  account_id: string;
  /** Its name; '' until it is needed. */
  account: string;
  limiter: string;
  /** Of several that had this name, one after the other, the last. */
  lane: string;
  /** Tasks that were granted or failed, older ones counting less; as of `at_ms`. */
  use: number;
  at_ms: number;
  series: (Series & { waiting: Gauge }) | null;
}

/** The name of an account by its id; never rejects. */
export type NameOf = (account_id: string) => Promise<string>;

/** In the main thread: all limiters of this process. */
export class LimiterTop {
  readonly #metrics: Metrics;
  readonly #others: Series;
  readonly #known = new Map<string, Known>();
  readonly #named = new Set<Known>();
  readonly #nameOf: NameOf | null;
  #taken: Promise<void> = Promise.resolve();

  /** `nameOf` null: no limiter has series of its own. */
  constructor(metrics: Metrics, nameOf: NameOf | null) {
    this.#metrics = metrics;
    this.#nameOf = nameOf;
    this.#others = seriesOf(metrics, OTHERS);
  }

  /** Resolves when it is counted; one message after the other. */
  take(counts: readonly LimiterCounts[], now_ms: number): Promise<void> {
    this.#taken = this.#taken.then(() => this.#take(counts, now_ms));
    return this.#taken;
  }

  async #take(counts: readonly LimiterCounts[], now_ms: number): Promise<void> {
    for (const one of counts) {
      const series = one.lane === '' || this.#nameOf === null ? null : await this.#seriesOf(one, now_ms, this.#nameOf);
      series?.waiting.set(one.waiting);
      const { grants, timeouts, reclaimed, waits } = series ?? this.#others;
      grants.add(one.granted);
      timeouts.add(one.expired);
      reclaimed.add(one.reclaimed);
      for (let i = 0; i < one.waits.length; i += 2) {
        const [sum_s, tasks] = [one.waits[i] ?? 0, one.waits[i + 1] ?? 0];
        // The mean of a bucket lies in it.
        if (tasks > 0) waits.observe(sum_s / tasks, tasks);
      }
    }
  }

  /** Those that have series of their own, by their ids without the prefix. */
  lanes(): string[] {
    return [...this.#named].map(({ lane }) => lane);
  }

  /** So many tasks wait for a limiter, as was looked up. */
  waits(lane: string, waiting: number): void {
    for (const known of this.#named) if (known.lane === lane) known.series?.waiting.set(waiting);
  }

  async #seriesOf(one: LimiterCounts, now_ms: number, nameOf: NameOf): Promise<Known['series']> {
    const known = this.#knownOf(one, now_ms);
    const waits = one.waiting > 0 ? 1 : 0;
    known.use = useOf(known, now_ms) + one.granted + one.expired + waits;
    known.at_ms = now_ms;
    if (known.series === null && this.#makeRoom(known, now_ms)) this.#name(known, await nameOf(known.account_id));
    return known.series;
  }

  #knownOf({ account, name, lane }: LimiterCounts, now_ms: number): Known {
    const key = `${account} ${name}`;
    let known = this.#known.get(key);
    if (known === undefined) {
      if (this.#known.size >= LIMITERS_MAX) this.#thin(now_ms);
      known = { account_id: account, account: '', limiter: name, lane, use: 0, at_ms: now_ms, series: null };
      this.#known.set(key, known);
    }
    known.lane = lane;
    return known;
  }

  /** Forgets the less used half of those without a series. */
  #thin(now_ms: number): void {
    const rest = [...this.#known].filter(([, { series }]) => series === null);
    rest.sort(([, a], [, b]) => useOf(a, now_ms) - useOf(b, now_ms));
    for (const [key] of rest.slice(0, Math.ceil(rest.length / 2))) this.#known.delete(key);
  }

  /** Whether it comes among the most used; the least used of them makes room. */
  #makeRoom(known: Known, now_ms: number): boolean {
    if (this.#named.size < LIMITERS_NAMED_MAX) return true;
    const least = [...this.#named].reduce((a, b) => (useOf(b, now_ms) < useOf(a, now_ms) ? b : a));
    if (known.use <= useOf(least, now_ms) * AHEAD) return false;
    least.series = null;
    this.#named.delete(least);
    this.#forget(least);
    return true;
  }

  #name(known: Known, account: string): void {
    known.account = account;
    const labels = { account, limiter: known.limiter };
    known.series = { ...seriesOf(this.#metrics, labels), waiting: this.#metrics.gauge('limiter_top_waiting', labels) };
    this.#named.add(known);
  }

  #forget({ account, limiter }: Known): void {
    const labels = { account, limiter };
    this.#metrics.forget('limiter_top_grants_total', labels);
    this.#metrics.forget('limiter_top_timeouts_total', labels);
    this.#metrics.forget('limiter_top_slots_reclaimed_total', labels);
    this.#metrics.forget('limiter_top_wait_seconds', labels);
    this.#metrics.forget('limiter_top_waiting', labels);
  }
}

function seriesOf(metrics: Metrics, labels: { account: string; limiter: string }): Series {
  return {
    grants: metrics.counter('limiter_top_grants_total', labels),
    timeouts: metrics.counter('limiter_top_timeouts_total', labels),
    reclaimed: metrics.counter('limiter_top_slots_reclaimed_total', labels),
    waits: metrics.histogram('limiter_top_wait_seconds', labels),
  };
}

function useOf({ use, at_ms }: Known, now_ms: number): number {
  return use * 2 ** ((at_ms - now_ms) / HALF_LIFE_MS);
}
