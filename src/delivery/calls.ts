// The numbers of a pump's claims, and a claim that is answered without being sent: a pump that finds nothing more to claim offers
// to take the next task as it comes (lua/lib/free.lua; docs/decisions/0057-a-claim-that-is-not-sent.md).
import { type Pushed, readPushed } from '../store/claimed.ts';

export class Calls {
  /** Number of the next claim; one is repeated until it was answered. */
  number = 1;
  /** Redis may have an offer. */
  #offered = false;
  #pushed: Pushed | null = null;

  /** Whether there is something to take back: nobody listens here any more. */
  get offered(): boolean {
    return this.#offered;
  }

  /**
   * What a turn does about offers: one that claims takes back what it has offered before; the first one what an owner before has.
   * `nothing_left` to claim: it makes one.
   */
  turn(claims: boolean, owned: boolean, first: boolean, nothing_left: boolean): { retract: boolean; offer: number | null } {
    const retract = this.#offered ? claims || !owned : claims && first;
    const offers = owned && nothing_left && !claims && !this.#offered;
    if (retract || offers) this.#offered = offers;
    return { retract, offer: offers ? this.number : null };
  }

  /** An offer may stand that is not known of: a turn failed, or Redis was replaced. */
  doubt(): void {
    this.#offered = true;
  }

  /** A claim was answered. */
  answered(): void {
    this.number += 1;
  }

  /** A task was handed over; false where it was to another one. */
  heard(message: string, holder: string): boolean {
    const pushed = readPushed(message);
    if (pushed.holder === holder) this.#pushed = pushed;
    return pushed.holder === holder;
  }

  /** Whether a task was handed over that was not looked at yet. */
  get handed(): boolean {
    return this.#pushed !== null;
  }

  /** That task, unless a claim has brought it since. Not to be asked while one is under way. */
  taken(): Pushed | null {
    const pushed = this.#pushed;
    this.#pushed = null;
    if (pushed === null || pushed.call_no < this.number) return null;
    this.number = pushed.call_no + 1;
    this.#offered = false;
    return pushed;
  }
}
