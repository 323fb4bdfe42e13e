// The numbers of a pump's claims, and a claim that is answered without being sent: a pump that finds nothing more to claim offers
// to take the next task as it comes (lua/lib/free.lua; docs/decisions/0057-a-claim-that-is-not-sent.md).
import { monotonicMs } from '../base/clock.ts';
import { type Pushed, readPushed } from '../store/claimed.ts';
import type { InFlight } from './in-flight.ts';

export class Calls {
  /** Number of the next claim; one is repeated until it was answered. Growing, also where a pump is made anew for this thread's name. */
  number = Math.ceil(monotonicMs()) + 1;
  /** An offer was made. */
  #offered = false;
  /** Redis may have an offer that is not known of: a turn failed, or Redis was replaced. */
  #doubtful = false;
  /** A claim took an offer back; what it brings, if anything, makes the next. */
  #withdrawn = false;
  /** Nothing is offered any more; an offer that a turn fails to take back is left to those who come after. */
  #ended = false;
  #handed: Pushed[] = [];

  /** Whether there may be something to take back: nobody listens here any more. */
  get offered(): boolean {
    return this.#offered || this.#doubtful;
  }

  /** Whether a claim took an offer back and brought nothing. */
  get withdrawn(): boolean {
    return this.#withdrawn;
  }

  /**
   * What a turn does about offers: one that claims takes back what it has offered before; the first one what an owner before has.
   * `nothing_left` to claim: it makes one.
   */
  turn(claims: boolean, owned: boolean, first: boolean, nothing_left: boolean): { retract: boolean; offer: number | null } {
    const retract = this.offered ? claims || !owned : claims && first;
    const offers = owned && nothing_left && !claims && !this.offered;
    if (retract) this.#withdrawn = this.#offered && owned;
    if (retract) this.#doubtful = false;
    if (retract || offers) this.#offered = offers;
    if (offers) this.#withdrawn = false;
    return { retract, offer: offers ? this.number : null };
  }

  /** What is known of offers may not be so. */
  doubt(): void {
    this.#doubtful = !this.#ended;
    if (this.#ended) this.#offered = false;
    this.#withdrawn = false;
  }

  /** The process ends. */
  end(): void {
    this.#ended = true;
  }

  /** A claim was answered, and brought so many tasks. */
  answered(tasks: number): void {
    this.number += 1;
    if (tasks > 0) this.#withdrawn = false;
  }

  /** A task was handed over; false where it was to another one. */
  heard(message: string, holder: string): boolean {
    const pushed = readPushed(message);
    if (pushed.holder === holder) this.#handed.push(pushed);
    return pushed.holder === holder;
  }

  /**
   * Gives those that were handed over, but not what a claim has brought since, or an audit has found, and is in flight by its name. `late`
   * where its number has passed: it came of an offer that was not known of, and nobody has it, or it has ended. Not to be called while a claim is under way.
   */
  take(flying: InFlight, found: (pushed: Pushed, late: boolean) => void): void {
    for (const pushed of this.#handed.splice(0)) {
      const late = pushed.call_no < this.number;
      if (!late) {
        this.number = pushed.call_no + 1;
        this.#offered = false;
      }
      if (!flying.has(pushed.task.flight.name)) found(pushed, late);
    }
  }
}
