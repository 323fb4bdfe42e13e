// A first-in, first-out line that anyone may leave from the middle at once: calls leave it by their deadline or by `abort`.

interface Place<T> {
  item: T;
  before: Place<T> | null;
  behind: Place<T> | null;
}

export class WaitingLine<T> {
  readonly #places = new Map<T, Place<T>>();
  #head: Place<T> | null = null;
  #tail: Place<T> | null = null;

  get size(): number {
    return this.#places.size;
  }

  /** Who has waited longest. */
  get first(): T | null {
    return this.#head === null ? null : this.#head.item;
  }

  push(item: T): void {
    const place: Place<T> = { item, before: this.#tail, behind: null };
    if (this.#tail === null) this.#head = place;
    else this.#tail.behind = place;
    this.#tail = place;
    this.#places.set(item, place);
  }

  shift(): T | null {
    const place = this.#head;
    if (place === null) return null;
    this.remove(place.item);
    return place.item;
  }

  /** False where the item is not in the line. */
  remove(item: T): boolean {
    const place = this.#places.get(item);
    if (place === undefined) return false;
    this.#places.delete(item);
    if (place.before === null) this.#head = place.behind;
    else place.before.behind = place.behind;
    if (place.behind === null) this.#tail = place.before;
    else place.behind.before = place.before;
    return true;
  }
}

/** Lines of several who take turns: one who comes with a little does not wait behind all that another has there. */
export class WaitingTurns<T> {
  /** By who they are of, in the order of their turns; none is empty. */
  readonly #lines = new Map<string, WaitingLine<T>>();
  readonly #whose: (item: T) => string;
  #size = 0;

  constructor(whose: (item: T) => string) {
    this.#whose = whose;
  }

  get size(): number {
    return this.#size;
  }

  /** Whether this holds for one of those who have waited longest in their line. */
  someFirst(holds: (item: T) => boolean): boolean {
    for (const { first } of this.#lines.values()) if (first !== null && holds(first)) return true;
    return false;
  }

  push(item: T): void {
    const whose = this.#whose(item);
    const line = this.#lines.get(whose) ?? new WaitingLine<T>();
    if (line.size === 0) this.#lines.set(whose, line);
    line.push(item);
    this.#size += 1;
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

  /** Does nothing where the item does not wait. */
  remove(item: T): void {
    const whose = this.#whose(item);
    const line = this.#lines.get(whose);
    if (line?.remove(item) !== true) return;
    this.#size -= 1;
    if (line.size === 0) this.#lines.delete(whose);
  }
}
