// How much of each origin a thread may have in flight, and which origins are broken.
//
// An origin gets as many places as it can use: twice what keeps it busy at the best latency seen lately (Little's law),
// at least 256, at most its cap, and never more than half of what the others leave. One that never answered yet may have
// 1,024: so a host that hangs leaves room for all others, however much work waits for it, and one that takes its
// time and answers gets enough to be fast all the same.
// Work for an origin without room is parked in Redis and rung for when it has some.
//
//   whole ──20 connect failures in a row──▶ broken ──every 5 s──▶ one probe ──answered──▶ whole
//                                              ▲                      │
//                                              └───────failed─────────┘

import { type Clock, monotonicMs } from '../base/clock.ts';
import { BREAKER_FAILURES, BREAKER_PROBE_MS, ORIGINS_MAX, ROOMS_MAX } from '../base/limits.ts';
import type { FailureCode } from '../outbound/failures.ts';

/** Places of an origin: for each millisecond of its latency, at least, and of one that never answered. */
interface Measure {
  per_ms: number;
  least: number;
  unknown: number;
}
/**
 * 60 calls a millisecond are more than a thread makes, so twice that. A quick host has a few connections (outbound/origin.ts), and the
 * rest in the line for one: so claims are large, and few. More than that would only keep it from other threads, that may have less to do.
 */
const USUAL: Measure = { per_ms: 120, least: 256, unknown: 1024 };
/** While the thread is behind: no more than a quick host has, so that what it has to do at a time becomes less, and so many that a host that takes seconds is as busy as before. */
const BEHIND: Measure = { per_ms: 6, least: 256, unknown: 256 };
/**
 * For who was not there when its places were given away: so many at a claim, while it has less than this in flight, in limits. Claims that
 * are under way together do not know of each other, so that what is in flight is half as much again at times.
 */
const ASIDE_MAX = 8;
const ASIDE_LIMITS = 2;
/** What a claim takes in its turn while other partitions wait for the same origin: so few that the turns come soon. */
const TURN_MAX = 256;
/**
 * Parked work is rung for when a quarter of its origin's places is free. So soon after the last time it has to be so many, where as many are still in
 * flight: else claims to a quick host would be smaller than what they cost is worth. After UNRUNG_MS_MAX any is enough.
 */
const RUNG_SOON_MS = 25;
const RUNG_MIN = 128;
const UNRUNG_MS_MAX = 1_000;
/** While the probe of a broken origin is under way elsewhere, it is asked for again after this. */
export const PROBE_WAIT_MS = 250;
/** The best latency is that of this second or the one before, in a window of twice this. */
const LATENCY_WINDOW_MS = 5_000;

interface Origin {
  in_flight: number;
  /** Best latency of the current window and of the one before, ms; Infinity = no answer yet. */
  best_ms: number;
  best_before_ms: number;
  window_ms: number;
  /** Connect failures in a row. */
  failures: number;
  /** When a broken one may be tried next; null for a whole one. */
  probe_ms: number | null;
  /** Partitions where work for it is parked. */
  readonly parked: Set<number>;
  /** When parked work of it was last rung for, or the first of it was parked. */
  rung_ms: number;
}

/** What is to be known of the thread. */
export interface Thread {
  /** Places that no task has taken. */
  free(): number;
  /** Whether it has more work at a time than it can do in time: more of it in flight would only wait. */
  behind(): boolean;
}

/** Failures that say that the host cannot be reached at all. */
const UNREACHABLE: ReadonlySet<FailureCode> = new Set<FailureCode>(['dns', 'connect', 'tls']);
/** Ends that say nothing about the host. */
const UNTOLD: ReadonlySet<FailureCode> = new Set<FailureCode>(['shutdown', 'stale', 'cancelled', 'target_blocked']);

export class Origins {
  readonly #cap: number;
  readonly #thread: Thread;
  readonly #clock: Clock;
  readonly #origins = new Map<string, Origin>();
  #broken = 0;
  #parked = 0;

  constructor(cap: number, thread: Thread, clock: Clock = monotonicMs) {
    this.#cap = cap;
    this.#thread = thread;
    this.#clock = clock;
  }

  /** Origins that are broken now. */
  get broken(): number {
    return this.#broken;
  }

  /** What a claim may take of an origin that it is not told about. */
  room(): number {
    return Math.max(1, Math.min(this.#cap, this.#measure.unknown, Math.floor(this.#thread.free() / 2)));
  }

  /**
   * The room of origins that are known, for a claim that lets go of `unparked` (`*` for all): what is in flight counts, and a
   * broken one has room for its probe alone. Where other partitions wait for room there is none for a claim whose turn it
   * is not: its work is parked, too, and takes turns with theirs. Else whoever is not parked would take each place that becomes free.
   * But for a few: a claim meets them with what is not parked there, such as the one task of an account beside another's thousands,
   * which else would wait until all partitions had their turn.
   */
  rooms(unparked: readonly string[]): [origin: string, tasks: number][] {
    const rooms: [string, number][] = [];
    for (const [name, origin] of this.#origins) {
      const [left, aside] = [Math.max(0, this.#roomLeft(origin)), this.#roomAside(origin)];
      const turn = unparked.includes(name) || unparked.includes('*');
      if (origin.parked.size === 0) rooms.push([name, Math.max(left, aside)]);
      else rooms.push([name, turn ? Math.min(left, TURN_MAX) : aside]);
    }
    if (rooms.length <= ROOMS_MAX) return rooms;
    return rooms.sort((a, b) => a[1] - b[1]).slice(0, ROOMS_MAX);
  }

  /** Whether a claim that it is not the turn of would bring one more. */
  hasRoom(name: string): boolean {
    const origin = this.#origins.get(name);
    return origin === undefined || (origin.parked.size === 0 ? this.#roomLeft(origin) : this.#roomAside(origin)) > 0;
  }

  #roomLeft(origin: Origin): number {
    if (origin.probe_ms === null) return this.#placesOf(origin) - origin.in_flight;
    return origin.in_flight === 0 && this.#clock() >= origin.probe_ms ? 1 : 0;
  }

  /** Beyond its limit, within its cap; of a host that does not answer nobody gets more than its limit. */
  #roomAside(origin: Origin): number {
    if (origin.probe_ms !== null || bestOf(origin) === Number.POSITIVE_INFINITY) return 0;
    const most = Math.min(this.#cap, this.#shareOf(origin), ASIDE_LIMITS * this.#limitOf(origin, USUAL));
    return Math.max(0, Math.min(ASIDE_MAX, most - origin.in_flight));
  }

  /** Places that it may have in all. */
  #placesOf(origin: Origin): number {
    return Math.min(this.#shareOf(origin), this.#limitOf(origin, this.#measure));
  }

  #shareOf(origin: Origin): number {
    return Math.max(1, Math.floor((this.#thread.free() + origin.in_flight) / 2));
  }

  #limitOf(origin: Origin, { per_ms, least, unknown }: Measure): number {
    const best_ms = bestOf(origin);
    return Math.min(this.#cap, best_ms === Number.POSITIVE_INFINITY ? unknown : Math.max(least, Math.ceil(best_ms * per_ms)));
  }

  get #measure(): Measure {
    return this.#thread.behind() ? BEHIND : USUAL;
  }

  began(name: string): void {
    const origin = this.#get(name);
    origin.in_flight += 1;
    if (origin.probe_ms !== null) origin.probe_ms = this.#clock() + BREAKER_PROBE_MS;
  }

  /**
   * A call ended; `failure` is null where the host answered, or where nothing can be said about it. `took_ms`: since it was sent. With the wait for a
   * connection before that a host's latency would grow with its places, and its places with it.
   */
  ended(name: string, failure: FailureCode | null, took_ms: number): void {
    const origin = this.#get(name);
    origin.in_flight -= 1;
    if (failure === null || failure === 'http_status') this.#learn(origin, took_ms);
    if (failure !== null && UNREACHABLE.has(failure)) {
      origin.failures += 1;
      if (origin.failures >= BREAKER_FAILURES && origin.probe_ms === null) {
        this.#broken += 1;
        origin.probe_ms = this.#clock() + BREAKER_PROBE_MS;
      }
    } else if (failure !== null && UNTOLD.has(failure)) {
      // A broken one's probe that was none: the next may go at once.
      if (origin.probe_ms !== null) origin.probe_ms = this.#clock();
    } else {
      if (origin.probe_ms !== null) this.#broken -= 1;
      origin.failures = 0;
      origin.probe_ms = null;
    }
  }

  #learn(origin: Origin, took_ms: number): void {
    const now_ms = this.#clock();
    if (now_ms - origin.window_ms > LATENCY_WINDOW_MS) {
      origin.best_before_ms = origin.best_ms;
      origin.best_ms = took_ms;
      origin.window_ms = now_ms;
    } else if (took_ms < origin.best_ms) {
      origin.best_ms = took_ms;
    }
  }

  /** Work for it waits in this partition until `unparkable` names it. */
  parked(name: string, partition: number): void {
    const origin = this.#get(name);
    if (origin.parked.size === 0) origin.rung_ms = this.#clock();
    if (!origin.parked.has(partition)) this.#parked += 1;
    origin.parked.add(partition);
  }

  /** Those of `names` that are not broken: they are parked for want of places, which another thread may have. */
  whole(names: readonly string[]): string[] {
    return names.filter((name) => this.#origins.get(name)?.probe_ms === null);
  }

  /** Origins that this thread knows to have work parked in this partition. */
  parkedIn(partition: number): number {
    let count = 0;
    if (this.#parked > 0) for (const { parked } of this.#origins.values()) if (parked.has(partition)) count += 1;
    return count;
  }

  /** Nothing is parked in this partition any more. */
  unparkedAll(partition: number): void {
    if (this.#parked > 0) for (const { parked } of this.#origins.values()) if (parked.delete(partition)) this.#parked -= 1;
  }

  /** Origins that have room again for work parked in this partition; they count as rung for. */
  unparkable(partition: number): string[] {
    const names: string[] = [];
    if (this.#parked === 0) return names;
    for (const [name, origin] of this.#origins) {
      if (!origin.parked.has(partition) || !this.#wellBelow(origin)) continue;
      origin.parked.delete(partition);
      origin.rung_ms = this.#clock();
      this.#parked -= 1;
      names.push(name);
    }
    return names;
  }

  /** Whether work is parked here for an origin that has room again. */
  hasUnparkable(partition: number): boolean {
    if (this.#parked === 0) return false;
    for (const origin of this.#origins.values()) if (origin.parked.has(partition) && this.#wellBelow(origin)) return true;
    return false;
  }

  /** When the next broken origin may be tried, for a partition where its work is parked, and PROBE_WAIT_MS from now at the earliest; Infinity where there is none. */
  nextProbeMs(partition: number): number {
    let next_ms = Number.POSITIVE_INFINITY;
    if (this.#parked === 0 || this.#broken === 0) return next_ms;
    for (const { probe_ms, parked } of this.#origins.values()) {
      if (probe_ms !== null && parked.has(partition)) next_ms = Math.min(next_ms, probe_ms);
    }
    return Math.max(next_ms, this.#clock() + PROBE_WAIT_MS);
  }

  /** Ringing for each place that becomes free would be a call a task; a place that is free for long may be one that nobody makes free again. */
  #wellBelow(origin: Origin): boolean {
    const left = this.#roomLeft(origin);
    const since_ms = this.#clock() - origin.rung_ms;
    if (origin.probe_ms !== null || since_ms >= UNRUNG_MS_MAX) return left > 0;
    const places = this.#placesOf(origin);
    const few = since_ms < RUNG_SOON_MS ? Math.min(RUNG_MIN, places - RUNG_MIN) : 1;
    return left >= Math.max(1, Math.floor(places / 4), few);
  }

  #get(name: string): Origin {
    let origin = this.#origins.get(name);
    if (origin === undefined) {
      origin = {
        in_flight: 0,
        best_ms: Number.POSITIVE_INFINITY,
        best_before_ms: Number.POSITIVE_INFINITY,
        window_ms: this.#clock(),
        failures: 0,
        probe_ms: null,
        parked: new Set(),
        rung_ms: 0,
      };
      if (this.#origins.size >= ORIGINS_MAX) this.#forgetSome();
      this.#origins.set(name, origin);
    }
    return origin;
  }

  /** Too many: those with nothing in flight begin anew. */
  #forgetSome(): void {
    for (const [name, origin] of this.#origins) {
      if (origin.in_flight > 0 || origin.parked.size > 0) continue;
      if (origin.probe_ms !== null) this.#broken -= 1;
      this.#origins.delete(name);
    }
  }
}

/** Infinity where it has not answered lately. */
function bestOf({ best_ms, best_before_ms }: Origin): number {
  return Math.min(best_ms, best_before_ms);
}
