// The numbers of a pump's claims, and a claim that is answered without being sent: an express offers to take the next single task
// as it comes (lua/lib/free.lua; docs/decisions/0057-a-claim-that-is-not-sent.md, 0063-an-express-thread.md).
import { monotonicMs } from '../base/clock.ts';
import { type Pushed, readPushed } from '../store/claimed.ts';
import type { OfferStep } from '../store/offers.ts';
import type { InFlight } from './in-flight.ts';

/** So often it is made sure that an offer stands, and the clock of the partition is heard. */
const SURE_MS = 60_000;
/** Who had the partition before may not know yet that it is another's, and overwrite his offer: for so long it is looked after so often. */
const OVERLAP_MS = 2_000;
const OVERLAP_SURE_MS = 250;

/** What a pump may do about offers. Closed: it takes nothing that is handed over; full: nothing more for now. */
export type Door = 'open' | 'full' | 'closed';

export class Calls {
  /** Number of the next claim; one is repeated until it was answered. Growing, also where a pump is made anew for this thread's name. */
  number = Math.ceil(monotonicMs()) + 1;
  /** An offer was made, and not taken as far as is known. */
  #offered = false;
  #offered_ms = Number.NEGATIVE_INFINITY;
  #taken_ms = Number.NEGATIVE_INFINITY;
  /** When it last was known to stand. */
  #sure_ms = Number.NEGATIVE_INFINITY;
  /** When this pump began to make offers. */
  #begun_ms = Number.NEGATIVE_INFINITY;
  /** Redis may have an offer that is not known of, or none where one is: a turn failed, or Redis was replaced. */
  #doubtful = false;
  /** Nothing is offered any more; an offer that a turn fails to take back is left to those who come after. */
  #ended = false;
  #handed: Pushed[] = [];

  /** Whether there may be something to take back. */
  get offered(): boolean {
    return this.#offered || this.#doubtful;
  }

  /**
   * When something is to be done about offers; Infinity where there is nothing. The next one follows `gap_ms` after the one before was taken, so that the turn that makes
   * it is not in the way of that task's call.
   */
  due_ms(door: Door, gap_ms: number): number {
    if (this.#doubtful || (door === 'closed' && this.#offered)) return 0;
    if (this.#offered) return this.#sure_ms + (this.#sure_ms < this.#begun_ms + OVERLAP_MS ? OVERLAP_SURE_MS : SURE_MS);
    return door === 'open' ? Math.max(this.#offered_ms, this.#taken_ms) + gap_ms : Number.POSITIVE_INFINITY;
  }

  /**
   * What a turn does about them; null: nothing. What is in doubt, or of one who is closed, ends. `settles`: it is made in any case, and takes the next offer along
   * `gap_ms` after the one before was made.
   */
  turn(now_ms: number, door: Door, gap_ms: number, settles: boolean): OfferStep | null {
    const along = settles && door === 'open' && !this.offered && now_ms >= this.#offered_ms + gap_ms;
    if (!along && now_ms < this.due_ms(door, gap_ms)) return null;
    this.#sure_ms = now_ms;
    if (this.#offered && !this.#doubtful && door !== 'closed') return 'check';
    const makes = !this.#offered && !this.#doubtful;
    this.#offered = makes;
    this.#doubtful = false;
    if (!makes) return 'end';
    this.#offered_ms = now_ms;
    return 'make';
  }

  /** Offers are made from now on. */
  begin(now_ms: number): void {
    this.#begun_ms = now_ms;
  }

  /** It was looked at: where it does not stand somebody has taken it, and we may not have heard. */
  checked(stands: boolean): void {
    if (this.#offered && !stands) this.doubt();
  }

  /** What is known of offers may not be so. */
  doubt(): void {
    // Who never made one has nothing to take back.
    this.#doubtful = !this.#ended && this.#offered_ms > Number.NEGATIVE_INFINITY;
    if (this.#ended) this.#offered = false;
  }

  /** The process ends. */
  end(): void {
    this.#ended = true;
  }

  /** A claim was answered. */
  answered(): void {
    this.number += 1;
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
        this.#taken_ms = monotonicMs();
      }
      if (!flying.has(pushed.task.flight.name)) found(pushed, late);
    }
  }
}
