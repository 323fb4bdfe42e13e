// The partitions that a thread works on: those that it owns, those that it has let go of until nothing of theirs is in flight, and those
// that it helps with (docs/decisions/0056-who-has-nothing-to-do-helps.md).
import { monotonicMs } from '../base/clock.ts';
import type { Hints } from '../store/hints.ts';
import { keys } from '../store/keys.ts';
import type { Pump } from './pump.ts';

/** What a thread tells the others of its process. */
export interface Company {
  /** More work is ready in a partition than its thread can take at once: who has nothing to do may help. */
  help(partition: number): void;
  /** A helper has left it: what he knew to be parked there is no longer his. */
  left(partition: number): void;
}

/** Between two calls for help. */
const HELP_MS = 10;

export class Pumps {
  readonly #make: (partition: number) => Pump;
  readonly #hints: Hints;
  readonly #company: Company;
  /** Who was fed last is last. */
  readonly #pumps = new Map<number, Pump>();
  #called_ms = Number.NEGATIVE_INFINITY;

  constructor(make: (partition: number) => Pump, hints: Hints, company: Company) {
    this.#make = make;
    this.#hints = hints;
    this.#company = company;
  }

  [Symbol.iterator](): Iterator<Pump> {
    return this.#pumps.values();
  }

  /** Takes over these partitions and lets go of all others; what is in flight of those is still settled. */
  assign(partitions: readonly number[]): void {
    const wanted = new Set(partitions);
    for (const partition of wanted) this.#own(partition);
    for (const [partition, pump] of this.#pumps) {
      if (wanted.has(partition) || !pump.owned) continue;
      pump.disown();
      for (const channel of [keys.bell(partition), keys.handed(partition)]) this.#hints.unsubscribe(channel);
      void pump.drained().then(() => this.#forget(pump));
    }
  }

  #own(partition: number): void {
    const pump = this.#get(partition);
    if (pump.owned) return pump.glance();
    this.#hints.subscribe(keys.bell(partition), (message) => pump.bell(message));
    this.#hints.subscribe(keys.handed(partition), (message) => pump.handed(message));
    pump.own();
  }

  /** Hints of this channel may have been lost. */
  heardAgain(channel: string): void {
    for (const pump of this.#pumps.values()) {
      if (pump.owned && [keys.bell(pump.partition), keys.handed(pump.partition)].includes(channel)) pump.look();
    }
  }

  /** It was fed: its turn comes after all others'. */
  fed(pump: Pump): void {
    this.#pumps.delete(pump.partition);
    this.#pumps.set(pump.partition, pump);
  }

  /** More is ready there than its owner has just claimed. */
  overflows(pump: Pump): void {
    const now_ms = monotonicMs();
    if (now_ms - this.#called_ms < HELP_MS) return;
    this.#called_ms = now_ms;
    this.#company.help(pump.partition);
  }

  /** Claims in a partition of another thread until nothing is left there. */
  help(partition: number): void {
    this.#get(partition).help();
  }

  /** Its help is over. `parks`: work is parked there that nobody else may know of. */
  helped(pump: Pump, parks: boolean): void {
    pump.disown();
    if (parks) this.#company.left(pump.partition);
    void pump.drained().then(() => this.#forget(pump));
  }

  /** A helper has left. */
  left(partition: number): void {
    const pump = this.#pumps.get(partition);
    if (pump?.owned) pump.left();
  }

  #get(partition: number): Pump {
    const pump = this.#pumps.get(partition) ?? this.#make(partition);
    this.#pumps.set(partition, pump);
    return pump;
  }

  #forget(pump: Pump): void {
    if (pump.claiming || !pump.empty || this.#pumps.get(pump.partition) !== pump) return;
    pump.close();
    this.#pumps.delete(pump.partition);
  }
}
