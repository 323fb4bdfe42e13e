// How much is begun in a turn of the event loop: a claim brings a hundred calls, a host that takes its time is worth as many new connections, and whatever
// else comes meanwhile would wait until all of them are on their way (docs/decisions/0059-a-turn-is-short.md).

/** So many calls are begun in a turn, beside those that follow on an answer; the others begin with the next turns. */
const BEGUN_PER_TURN = 16;
/** A call that needs a connection opened counts for so many. */
const OPENING_COSTS = 4;

/** Whose calls wait for the next turn. */
export interface Paced {
  /** Sends what waits for as long as there is time. */
  sendWaiting(): void;
}

export class Pace {
  /** Who got nothing in this turn is before those who got something. */
  readonly #later = new Set<Paced>();
  #begun = 0;

  /** Whether one more call may be begun in this turn. */
  hasTime(): boolean {
    return this.#begun < BEGUN_PER_TURN;
  }

  /** A call is begun on a connection that is open. */
  begins(): void {
    this.#spend(1);
  }

  /** A call is begun, and a connection opened for it. */
  opens(): void {
    this.#spend(OPENING_COSTS);
  }

  /** There is no time for its calls in this turn: `sendWaiting` is called in the next that has some. */
  later(who: Paced): void {
    this.#later.add(who);
  }

  #spend(cost: number): void {
    if (this.#begun === 0) setImmediate(() => this.#next());
    this.#begun += cost;
  }

  #next(): void {
    this.#begun = 0;
    const waiting = [...this.#later];
    this.#later.clear();
    const without: Paced[] = [];
    for (const who of waiting) {
      if (this.hasTime()) who.sendWaiting();
      else without.push(who);
    }
    if (without.length === 0) return;
    const served = [...this.#later];
    this.#later.clear();
    for (const who of [...without, ...served]) this.#later.add(who);
  }
}
