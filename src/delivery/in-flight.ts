// What a pump has in flight, by the names that Redis has for it, from the claim until the settlement was answered.
import type { Flight } from '../store/partition.ts';

/** Tasks in flight under one name, as Redis has them. */
export interface Flown {
  flight: Flight;
  from: number;
  to: number;
}

export class InFlight {
  /** Tasks by the name of their flight. */
  readonly #flights = new Map<string, number>();
  #strangers = new Set<string>();
  /** Whether an audit may find something. */
  #doubtful = false;
  /** Tasks in flight. */
  count = 0;

  /**
   * Whether an audit could find nothing: since the last one no claim was tried, and Redis was there all the time. One that
   * comes back without its latest writes has in flight again what was settled.
   */
  get quiet(): boolean {
    return this.count === 0 && this.#strangers.size === 0 && !this.#doubtful;
  }

  /** A claim was tried, or Redis may have lost its latest writes. */
  doubt(): void {
    this.#doubtful = true;
  }

  /** `mine`: Redis has something in flight here. Whether that is nothing that is known of, which an audit may find. */
  missed(mine: boolean): boolean {
    const missed = mine && this.count === 0;
    this.#doubtful ||= missed;
    return missed;
  }

  has(name: string): boolean {
    return this.#flights.has(name);
  }

  add(name: string, tasks = 1): void {
    this.#flights.set(name, (this.#flights.get(name) ?? 0) + tasks);
    this.count += tasks;
  }

  /** A claim was answered, which may be of a number whose first answer was lost. */
  claimed(tasks: readonly { flight: Flight }[]): void {
    this.doubt();
    for (const { flight } of tasks) this.add(flight.name);
  }

  landed(name: string): void {
    this.count -= 1;
    const left = (this.#flights.get(name) ?? 1) - 1;
    if (left === 0) this.#flights.delete(name);
    else this.#flights.set(name, left);
  }

  /**
   * Of what Redis has in flight here, as `read` tells, what nobody runs: seen twice it is sure, counts as in flight from then on and is given
   * to `found`, task by task. Returns how many names that were.
   */
  async audit(read: () => Promise<readonly Flown[]>, found: (flight: Flight, index: number) => void): Promise<number> {
    this.#doubtful = false;
    const active = await read().catch((error: unknown) => {
      this.#doubtful = true;
      throw error;
    });
    const strangers = active.filter(({ flight }) => !this.#flights.has(flight.name));
    const sure = strangers.filter(({ flight }) => this.#strangers.has(flight.name));
    this.#strangers = new Set(strangers.map(({ flight }) => flight.name));
    for (const { flight, from, to } of sure) {
      this.add(flight.name, to - from + 1);
      for (let index = from; index <= to; index++) found(flight, index);
    }
    return sure.length;
  }
}
