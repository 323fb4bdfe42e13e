// What the JSON reader is told, what it keeps in mind, and how it leaves off. Nothing of its loops is here.
import type { RawJson } from './raw-json.ts';

export interface JsonOptions {
  /** Keys whose values stay raw. */
  raw_keys: ReadonlySet<string>;
  /** Keys whose value is an object with keys of the caller's choosing (`headers`): `raw_keys` says nothing in there. */
  open_keys?: ReadonlySet<string>;
}

export type Item = Record<string, unknown>;

/** A raw value, its key, and how many containers are around it. */
export interface RawRead {
  raw: RawJson;
  key: string;
  depth: number;
}

/** An item of an array: what others around their raw value are compared with. */
export interface Model {
  item: Item;
  /** Where it is in the body. */
  from: number;
  to: number;
  /** Its raw value, and under which key. */
  raw: RawJson;
  key: string;
  /** Objects and arrays in it, it among them. */
  containers: number;
}

/** Leaves the recursion at the first fault; made without a stack trace and never seen outside the reader. */
export class Refusal {
  readonly message: string;
  constructor(message: string) {
    this.message = message;
  }
}
