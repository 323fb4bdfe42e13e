// What a pump lets go of that was parked for want of room: named in its next claim, until one was answered.
import type { Origins } from './origins.ts';

/** All parked origins, in a claim and its reply. */
const ALL = '*';

export class Unparking {
  /** The first claim of an owner lets go of what an owner before him parked; a helper is told of what he may take. */
  #all = false;
  /** A reply was lost since the last claim: the next one may be a repetition, which does not say again what was parked. */
  #lost = false;
  /** Somebody has left what he parked, perhaps after the claim that is under way, whose answer then does not say that it is gone. */
  #left = false;
  /** Origins named in a claim that was not answered yet. */
  #names: string[] = [];

  get all(): boolean {
    return this.#all;
  }

  get named(): number {
    return this.#names.length;
  }

  everything(): void {
    this.#all = true;
  }

  left(): void {
    this.#all = true;
    this.#left = true;
  }

  lost(): void {
    this.#lost = true;
  }

  /** What a claim is to name. */
  ask(origins: Origins, partition: number): readonly string[] {
    this.#left = false;
    if (this.#all) origins.unparkedAll(partition);
    this.#names = this.#all ? [ALL] : [...new Set([...this.#names, ...origins.unparkable(partition)])];
    return this.#names;
  }

  answered(origins: Origins, partition: number, parked: readonly string[]): void {
    // What a tick of this very turn found stays true, unless this claim let go of everything.
    this.#all = (this.#all && !this.#names.includes(ALL)) || this.#left || this.#lost || parked.includes(ALL);
    this.#names = [];
    this.#lost = false;
    for (const origin of parked) if (origin !== ALL) origins.parked(origin, partition);
  }
}
