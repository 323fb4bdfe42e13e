// A payload: JSON of a caller's that we store and send on, and never decode.

/** A value that was checked but not decoded: bytes `start` (inclusive) to `end` (exclusive) of the body it came in. */
export class RawJson {
  readonly start: number;
  readonly end: number;
  readonly #body: Buffer;

  constructor(body: Buffer, start: number, end: number) {
    this.#body = body;
    this.start = start;
    this.end = end;
  }

  get length(): number {
    return this.end - this.start;
  }

  /** A view, not a copy: it keeps the whole body in memory for as long as it lives. */
  bytes(): Buffer {
    return this.#body.subarray(this.start, this.end);
  }

  toString(): string {
    return this.#body.toString('utf8', this.start, this.end);
  }
}

/** JSON of a value that our reader made: as JSON.stringify, and what was left raw goes out as it came in. */
export function stringifyRaw(value: unknown): string {
  if (value instanceof RawJson) return value.toString();
  if (Array.isArray(value)) return `[${value.map(stringifyRaw).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${stringifyRaw(member)}`).join(',')}}`;
}
