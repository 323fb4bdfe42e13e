// Lines of several who take turns: one who comes with a little does not wait behind all that another has there.
import { Line, type Place } from './line.ts';

export class WaitingTurns<T> {
  /** By who they are of, in the order of their turns; none is empty. */
  readonly #lines = new Map<string, Line<T>>();
  readonly #whose: (item: T) => string;
  #size = 0;

  constructor(whose: (item: T) => string) {
    this.#whose = whose;
  }

  get size(): number {
    return this.#size;
  }

  push(item: T): Place<T> {
    const whose = this.#whose(item);
    const line = this.#lines.get(whose) ?? new Line<T>();
    if (line.size === 0) this.#lines.set(whose, line);
    this.#size += 1;
    return line.push(item);
  }

  shift(): T | null {
    for (const [whose, line] of this.#lines) {
      const item = line.shift();
      this.#size -= 1;
      if (line.size === 0) this.#lines.delete(whose);
      else if (this.#lines.size > 1) {
        this.#lines.delete(whose);
        this.#lines.set(whose, line);
      }
      return item;
    }
    return null;
  }

  /** Does nothing where the item has left. */
  remove(place: Place<T>): void {
    const { line } = place;
    if (line === null) return;
    line.remove(place);
    this.#size -= 1;
    if (line.size === 0) this.#lines.delete(this.#whose(place.item));
  }
}
