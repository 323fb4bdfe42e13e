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

  /** Who waits longest. */
  get head(): T | null {
    return this.#head?.item ?? null;
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

  /** Does nothing where the item is not in the line. */
  remove(item: T): void {
    const place = this.#places.get(item);
    if (place === undefined) return;
    this.#places.delete(item);
    if (place.before === null) this.#head = place.behind;
    else place.before.behind = place.behind;
    if (place.behind === null) this.#tail = place.before;
    else place.behind.before = place.before;
  }
}
