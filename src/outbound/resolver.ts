// Host names to addresses: every address of a name, remembered for a short time, one look-up at a time for a name.
// Node's own look-up runs on the four threads of libuv's pool, so that identical look-ups are joined matters under load.
import { type LookupAddress, lookup as systemLookup } from 'node:dns';
import type { Clock } from '../base/clock.ts';

const FRESH_MS = 10_000;
/** A name that failed is asked again soon, yet not by each of a thousand calls. */
const FRESH_FAILED_MS = 1_000;
const NAMES_MAX = 4_096;
const ADDRESSES_MAX = 16;

export type LookupCallback = (error: NodeJS.ErrnoException | null, addresses: readonly LookupAddress[]) => void;
/** Finds all addresses of a name; calls back once. */
export type Lookup = (hostname: string, done: LookupCallback) => void;

interface Entry {
  error: NodeJS.ErrnoException | null;
  addresses: readonly LookupAddress[];
  /** On the resolver's clock; meaningless while `waiting` is not null. */
  fresh_until_ms: number;
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
    const known = this.#entries.get(hostname);
    if (known?.waiting) {
      known.waiting.push(done);
      return;
    }
    if (known !== undefined && this.#clock() < known.fresh_until_ms) {
      process.nextTick(done, known.error, known.addresses);
      return;
    }
    const entry: Entry = { error: null, addresses: [], fresh_until_ms: 0, waiting: [done] };
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
    entry.error = error;
    entry.addresses = error === null ? addresses.slice(0, ADDRESSES_MAX) : [];
    entry.fresh_until_ms = this.#clock() + (error === null ? FRESH_MS : FRESH_FAILED_MS);
    for (const done of waiting) done(error, entry.addresses);
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
