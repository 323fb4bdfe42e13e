// A first-in, first-out line that anyone may leave from the middle at once.
//
// Not a Map or a Set: where members come and go by the thousand a second, those keep what has left until the whole heap is collected, and each collection of
// young space copies it (docs/decisions/0061-what-outlives-its-use.md).

/** Where an item stands; leads to nobody once it has left. */
export interface Place<T> {
  readonly item: T;
  /** The line it stands in; null once it has left. The other two are the line's own. */
  line: Line<T> | null;
  before: Place<T> | null;
  behind: Place<T> | null;
}

export class Line<T> {
  #head: Place<T> | null = null;
  #tail: Place<T> | null = null;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** Everybody, in turn. */
  all(): T[] {
    const all: T[] = [];
    for (let place = this.#head; place !== null; place = place.behind) all.push(place.item);
    return all;
  }

  push(item: T): Place<T> {
    const place: Place<T> = { item, line: this, before: this.#tail, behind: null };
    if (this.#tail === null) this.#head = place;
    else this.#tail.behind = place;
    this.#tail = place;
    this.#size += 1;
    return place;
  }

  shift(): T | null {
    const place = this.#head;
    if (place === null) return null;
    this.remove(place);
    return place.item;
  }

  /** False where it does not stand in this line. */
  remove(place: Place<T>): boolean {
    if (place.line !== this) return false;
    if (place.before === null) this.#head = place.behind;
    else place.before.behind = place.behind;
    if (place.behind === null) this.#tail = place.before;
    else place.behind.before = place.before;
    place.line = null;
    place.before = null;
    place.behind = null;
    this.#size -= 1;
    return true;
  }
}
