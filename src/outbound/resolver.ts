// Host names to addresses: every address of a name, remembered for a short time, one look-up at a time for a name.
// Node's own look-up runs on a few threads of libuv's pool (bin/sluice makes it larger), and one that gets no answer keeps its thread for ten
// seconds. So identical look-ups are joined, and a name that is in use does not wait for a new one.
import { type LookupAddress, lookup as systemLookup } from 'node:dns';
import type { Clock } from '../base/clock.ts';

const FRESH_MS = 10_000;
/** A name that failed is asked again soon, yet not by each of a thousand calls. */
const FRESH_FAILED_MS = 1_000;
/** For so long the last answer is given while a new one is looked for. */
const STALE_MS = 60_000;
const NAMES_MAX = 4_096;
const ADDRESSES_MAX = 16;

export type LookupCallback = (error: NodeJS.ErrnoException | null, addresses: readonly LookupAddress[]) => void;
/** Finds all addresses of a name; calls back once. */
export type Lookup = (hostname: string, done: LookupCallback) => void;

interface Entry {
  error: NodeJS.ErrnoException | null;
  addresses: readonly LookupAddress[];
  /** On the resolver's clock: until then nothing is looked up, and until when this answer may be given meanwhile. */
  fresh_until_ms: number;
  usable_until_ms: number;
  /** Callers of the look-up that is under way; null when there is none. */
  waiting: LookupCallback[] | null;
}

export class Resolver {
  readonly #clock: Clock;
  readonly #lookup: Lookup;
  /** In the order of their look-up, so the first is the oldest. */
  readonly #entries = new Map<string, Entry>();

  constructor(clock: Clock, lookup: Lookup = allAddresses) {
    this.#clock = clock;
    this.#lookup = lookup;
  }

  get names(): number {
    return this.#entries.size;
  }

  /** Never calls back before it returns. */
  resolve(hostname: string, done: LookupCallback): void {
    const now_ms = this.#clock();
    const entry = this.#entries.get(hostname) ?? { error: null, addresses: [], fresh_until_ms: 0, usable_until_ms: 0, waiting: null };
    if (now_ms < entry.usable_until_ms) {
      process.nextTick(done, entry.error, entry.addresses);
      if (now_ms >= entry.fresh_until_ms && entry.waiting === null) this.#look(hostname, entry, []);
    } else if (entry.waiting === null) this.#look(hostname, entry, [done]);
    else entry.waiting.push(done);
  }

  #look(hostname: string, entry: Entry, waiting: LookupCallback[]): void {
    entry.waiting = waiting;
    this.#entries.delete(hostname);
    this.#entries.set(hostname, entry);
    this.#forgetOldest();
    // A resolver handed in may answer at once; ours may not.
    process.nextTick(() => this.#lookup(hostname, (error, addresses) => this.#answered(entry, error, addresses)));
  }

  #answered(entry: Entry, error: NodeJS.ErrnoException | null, addresses: readonly LookupAddress[]): void {
    const waiting = entry.waiting;
    if (waiting === null) return;
    entry.waiting = null;
    const now_ms = this.#clock();
    entry.fresh_until_ms = now_ms + (error === null ? FRESH_MS : FRESH_FAILED_MS);
    // Who did not wait goes on with the answer before this one, as long as that may be given.
    if (error === null || now_ms >= entry.usable_until_ms) {
      entry.error = error;
      entry.addresses = error === null ? addresses.slice(0, ADDRESSES_MAX) : [];
      entry.usable_until_ms = entry.fresh_until_ms + (error === null ? STALE_MS : 0);
    }
    for (const done of waiting) done(entry.error, entry.addresses);
  }

  /** An entry dropped while its look-up runs still answers those who wait for it. */
  #forgetOldest(): void {
    if (this.#entries.size <= NAMES_MAX) return;
    const oldest = this.#entries.keys().next();
    if (!oldest.done) this.#entries.delete(oldest.value);
  }
}

function allAddresses(hostname: string, done: LookupCallback): void {
  systemLookup(hostname, { all: true }, (error, addresses) => done(error, addresses ?? []));
}
