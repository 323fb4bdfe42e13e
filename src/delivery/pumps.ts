// The partitions that a thread works on: those that it owns, or is the express of (docs/decisions/0063-an-express-thread.md), those that it has let
// go of until nothing of theirs is in flight, and those that it helps with (docs/decisions/0056-who-has-nothing-to-do-helps.md).
import { monotonicMs } from '../base/clock.ts';
import type { Hints } from '../store/hints.ts';
import { keys } from '../store/keys.ts';
import type { Pump } from './pump.ts';

/** What a thread tells the others of its process. */
export interface Company {
  /** There is more work in a partition than a thread can take at once, `ready` or parked for these origins: who has little to do may take of it. */
  help(partition: number, parked: readonly string[], ready: boolean): void;
  /** A helper has left it: what he knew to be parked there is no longer his. */
  left(partition: number): void;
}

/** Between two calls for help, with what is ready and with what is parked. */
const HELP_MS = 10;

export class Pumps {
  readonly #make: (partition: number) => Pump;
  readonly #hints: Hints;
  readonly #company: Company;
  readonly #express: boolean;
  /** Who was fed last is last. */
  readonly #pumps = new Map<number, Pump>();
  readonly #called_ms = { ready: Number.NEGATIVE_INFINITY, parked: Number.NEGATIVE_INFINITY };

  constructor(make: (partition: number) => Pump, hints: Hints, company: Company, express: boolean) {
    this.#make = make;
    this.#hints = hints;
    this.#company = company;
    this.#express = express;
  }

  get count(): number {
    return this.#pumps.size;
  }

  [Symbol.iterator](): Iterator<Pump> {
    return this.#pumps.values();
  }

  /** Takes over these partitions and lets go of all others; what is in flight of those is still settled. */
  assign(partitions: readonly number[]): void {
    const wanted = new Set(partitions);
    for (const partition of wanted) this.#serve(partition);
    for (const [partition, pump] of this.#pumps) {
      if (wanted.has(partition) || !pump.assigned) continue;
      pump.disown();
      this.#hints.unsubscribe(this.#channel(partition));
      void pump.drained().then(() => this.#forget(pump));
    }
  }

  #serve(partition: number): void {
    const pump = this.#get(partition);
    if (this.#express) {
      if (pump.assigned) return pump.look();
      const heard = this.#hints.subscribe(this.#channel(partition), (message) => pump.handed(message));
      void heard.then((confirmed) => confirmed && pump.hear(true));
      return pump.express();
    }
    if (pump.owned) return pump.glance();
    this.#hints.subscribe(this.#channel(partition), (message) => pump.bell(message));
    pump.own();
  }

  /** What tells of work there. */
  #channel(partition: number): string {
    return this.#express ? keys.handed(partition) : keys.bell(partition);
  }

  /** Hints of this channel may have been lost. */
  heardAgain(channel: string): void {
    for (const pump of this.#pumps.values()) {
      if (!pump.assigned || this.#channel(pump.partition) !== channel) continue;
      pump.hear(true);
      pump.look();
    }
  }

  /** Hints of this channel are not heard now. */
  deaf(channel: string): void {
    for (const pump of this.#pumps.values()) {
      if (!pump.assigned || this.#channel(pump.partition) !== channel) continue;
      pump.hear(false);
      pump.look();
    }
  }

  /** It was fed: its turn comes after all others'. */
  fed(pump: Pump): void {
    if (this.#pumps.get(pump.partition) !== pump) return;
    this.#pumps.delete(pump.partition);
    this.#pumps.set(pump.partition, pump);
  }

  /** More is there than was just claimed, by its owner or a helper. */
  overflows(pump: Pump, parked: readonly string[], ready: boolean): void {
    const now_ms = monotonicMs();
    const what = parked.length > 0 ? 'parked' : 'ready';
    if (now_ms - this.#called_ms[what] < HELP_MS) return;
    this.#called_ms[what] = now_ms;
    this.#company.help(pump.partition, parked, ready);
  }

  /** Claims in a partition in which another thread works, too, until nothing is left there. */
  help(partition: number, parked: readonly string[], ready: boolean): void {
    this.#get(partition).help(parked, ready);
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
    if (pump.assigned || pump.claiming || !pump.empty || this.#pumps.get(pump.partition) !== pump) return;
    pump.close();
    this.#pumps.delete(pump.partition);
  }
}
