// The reader behind json.ts: one pass over the bytes. One file, because V8 folds a module's own constants into the loops, and not those that it
// imports: split, it is a third slower.
import { breathe } from '../base/breath.ts';
import { type Item, type JsonOptions, type Model, type RawRead, Refusal } from './json-parts.ts';
import { RawJson } from './raw-json.ts';

/** Containers open at once, raw values included. */
export const DEPTH_MAX = 64;
const KEYS_MAX = 1024;
/** The densest valid body has 13 bytes for each object in it and 22 for each item of an array. `[{},{},…` has 3: 20 times its size in memory. */
const CONTAINER_BYTES_MIN = 12;
const ITEM_BYTES_MIN = 16;
const FREE = 1024;
const TOO_DENSE = 'More values than a valid body of this size has';

/** So many items of an array are compared with one that they are not like. */
const LIKE_TRIES = 16;

const QUOTE = 0x22;
const COMMA = 0x2c;
const MINUS = 0x2d;
const COLON = 0x3a;
const OPEN_ARRAY = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

/** What a byte inside a string is. */
const ENDS = 1;
const ESCAPES = 2;
const FORBIDDEN = 4;
const NOT_ASCII = 8;
const IN_STRING = Uint8Array.from({ length: 256 }, (_, byte) => {
  if (byte === QUOTE) return ENDS;
  if (byte === BACKSLASH) return ESCAPES;
  if (byte < 0x20) return FORBIDDEN;
  return byte >= 0x80 ? NOT_ASCII : 0;
});
const STOPS = ENDS | ESCAPES | FORBIDDEN;

/** What may follow a backslash. */
const ESCAPE = new Set([...'"\\/bfnrtu'].map((char) => char.charCodeAt(0)));
const HEX = Uint8Array.from({ length: 256 }, (_, byte) => (/[0-9a-fA-F]/.test(String.fromCharCode(byte)) ? 1 : 0));

/** The key that reaches into an object's prototype when somebody copies what was read. Any other name is one like others. */
const REFUSED_KEY = '__proto__';
const NO_KEYS: ReadonlySet<string> = new Set();
const LONE_SURROGATE = /\p{Surrogate}/u;
const hasOwn = Object.prototype.hasOwnProperty;

/** The last strings seen, by a weak hash: keys, methods, limiter names and targets repeat, and a compare is cheaper than a new string. */
const SEEN_SIZE = 4096;
const SEEN_LENGTH_MAX = 96;
const seen: string[] = new Array<string>(SEEN_SIZE).fill('');

/** The two decoders of Buffer, called directly: `toString` takes twice as long on short strings. */
interface Slices {
  latin1Slice(start: number, end: number): string;
  utf8Slice(start: number, end: number): string;
}

/** What is open in the raw value that is being read. One for all: no body is left before it is read to its end. */
const KINDS = new Uint8Array(DEPTH_MAX + 1);

// Bytes are read as `body[at] as number`: every such read stands behind a check of `at < end`.
export class Reader {
  private readonly body: Buffer;
  private readonly slices: Slices;
  private readonly end: number;
  private readonly raw_keys: ReadonlySet<string>;
  private readonly open_keys: ReadonlySet<string>;
  private readonly items_max: number;
  private containers_left: number;
  private at = 0;
  /** The last that was read. */
  private raw_read: RawRead | null = null;

  constructor(body: Buffer, options: JsonOptions) {
    this.body = body;
    this.slices = body as unknown as Slices;
    this.end = body.length;
    this.raw_keys = options.raw_keys;
    this.open_keys = options.open_keys ?? NO_KEYS;
    this.containers_left = FREE + Math.floor(body.length / CONTAINER_BYTES_MIN);
    this.items_max = FREE + Math.floor(body.length / ITEM_BYTES_MIN);
  }

  document(): unknown {
    const value = this.value(0, false);
    this.at = this.spaceEnd(this.at);
    if (this.at < this.end) throw this.unexpected();
    return value;
  }

  /** `depth` containers are open around this value; `open`: its keys are the caller's. */
  private value(depth: number, open: boolean): unknown {
    const byte = this.peek();
    if (byte === QUOTE) return this.string();
    if (byte === OPEN_OBJECT) return this.object(depth + 1, open);
    if (byte === OPEN_ARRAY) return this.array(depth + 1);
    if (byte === MINUS || (byte >= 0x30 && byte <= 0x39)) return this.number();
    if (byte === 0x74) return this.word('true', true);
    if (byte === 0x66) return this.word('false', false);
    if (byte === 0x6e) return this.word('null', null);
    throw this.unexpected();
  }

  private object(depth: number, open: boolean): Record<string, unknown> {
    this.enter(depth);
    const out: Record<string, unknown> = {};
    if (this.peek() === CLOSE_OBJECT) {
      this.at++;
      return out;
    }
    for (let count = 1; ; count++) {
      if (count > KEYS_MAX) throw this.refusal(`An object has more than ${KEYS_MAX} keys`);
      if (this.peek() !== QUOTE) throw this.unexpected();
      const key = this.string();
      // A name of Object.prototype looks set before it is; only the slow second test tells.
      if (out[key] !== undefined && (key === REFUSED_KEY || hasOwn.call(out, key))) {
        throw this.refusal(`The key ${JSON.stringify(key.slice(0, 64))} is ${key === REFUSED_KEY ? 'not allowed' : 'repeated'}`);
      }
      if (this.peek() !== COLON) throw this.unexpected();
      this.at++;
      if (!open && this.raw_keys.has(key)) {
        const raw = this.raw(depth);
        out[key] = raw;
        this.raw_read = { raw, key, depth };
      } else out[key] = this.value(depth, this.open_keys.has(key));
      const byte = this.peek();
      this.at++;
      if (byte === CLOSE_OBJECT) return out;
      if (byte !== COMMA) throw this.unexpected(this.at - 1);
    }
  }

  private array(depth: number): unknown[] {
    this.enter(depth);
    const out: unknown[] = [];
    if (this.peek() === CLOSE_ARRAY) {
      this.at++;
      return out;
    }
    let model: Model | null = null;
    for (let tries = LIKE_TRIES; ; ) {
      this.peek();
      const from = this.at;
      let item: unknown = model === null ? undefined : this.like(model, from, depth);
      if (item === undefined) {
        const containers = this.containers_left;
        this.raw_read = null;
        item = this.value(depth, false);
        const raw = this.raw_read as RawRead | null;
        // Where few are like the one before, what it takes to see that is not spent on all.
        const compare = raw?.depth === depth + 1 && --tries > 0;
        model = compare ? { item: item as Item, from, to: this.at, ...raw, containers: containers - this.containers_left } : null;
      }
      if (out.push(item) > this.items_max) throw this.refusal(TOO_DENSE);
      breathe();
      const byte = this.peek();
      this.at++;
      if (byte === CLOSE_ARRAY) return out;
      if (byte !== COMMA) throw this.unexpected(this.at - 1);
    }
  }

  /** Tasks are often alike but for their payload: the object at `from` where all around its raw value is as in the model, else undefined. */
  private like({ item, from: model_from, to, raw: of, key, containers }: Model, from: number, depth: number): Item | undefined {
    const body = this.body;
    const head = of.start - model_from;
    const tail = to - of.end;
    if (from + head + tail > this.end || body.compare(body, model_from, of.start, from, from + head) !== 0) return undefined;
    this.at = from + head;
    const raw = this.raw(depth + 1);
    const at = this.at;
    this.at = at + tail;
    if (this.at > this.end || body.compare(body, of.end, to, at, this.at) !== 0) {
      this.at = from;
      return undefined;
    }
    this.containers_left -= containers;
    if (this.containers_left < 0) throw this.refusal(TOO_DENSE);
    return { ...item, [key]: raw };
  }

  private enter(depth: number): void {
    if (depth > DEPTH_MAX) throw this.refusal(`Nested deeper than ${DEPTH_MAX}`);
    if (--this.containers_left < 0) throw this.refusal(TOO_DENSE);
    this.at++;
  }

  private string(): string {
    const body = this.body;
    const end = this.end;
    const start = this.at + 1;
    let at = start;
    let classes = 0;
    while (at < end) {
      const kind = IN_STRING[body[at] as number] as number;
      if (kind !== 0) {
        classes |= kind;
        if ((kind & STOPS) !== 0) break;
      }
      at++;
    }
    if (classes === ENDS) {
      this.at = at + 1;
      return at - start <= SEEN_LENGTH_MAX ? this.seenString(start, at) : this.slices.latin1Slice(start, at);
    }
    const after = this.skipString(this.at);
    const text: unknown =
      (classes & ESCAPES) !== 0 ? JSON.parse(this.slices.utf8Slice(this.at, after)) : this.slices.utf8Slice(start, after - 1);
    if (typeof text !== 'string' || ((classes & ESCAPES) !== 0 && LONE_SURROGATE.test(text)))
      throw this.refusal('A lone surrogate in a string');
    this.at = after;
    return text;
  }

  /** The ASCII string in these bytes, from the table where it holds it. */
  private seenString(start: number, end: number): string {
    const body = this.body;
    const length = end - start;
    if (length === 0) return '';
    const first = body[start] as number;
    const middle = body[start + (length >> 1)] as number;
    const last = body[end - 1] as number;
    const third = body[start + ((length * 3) >> 2)] as number;
    const slot = (first * 3 + middle * 31 + third * 127 + last * 521 + length * 2053) & (SEEN_SIZE - 1);
    const known = seen[slot] as string;
    if (known.length === length) {
      // Backwards: strings of one kind begin alike.
      let i = length - 1;
      while (i >= 0 && known.charCodeAt(i) === body[start + i]) i--;
      if (i < 0) return known;
    }
    const text = this.slices.latin1Slice(start, end);
    seen[slot] = text;
    return text;
  }

  private number(): number {
    const start = this.at;
    const body = this.body;
    const after = this.skipNumber(start);
    this.at = after;
    if (after - start <= 15 && body[start] !== MINUS) {
      let value = 0;
      let at = start;
      while (at < after) {
        const digit = (body[at] as number) - 0x30;
        if (digit < 0 || digit > 9) break;
        value = value * 10 + digit;
        at++;
      }
      if (at === after) return value;
    }
    const value = Number(this.slices.latin1Slice(start, after));
    if (!Number.isFinite(value)) throw this.refusal('A number is too large');
    return value;
  }

  private word<T>(word: string, value: T): T {
    this.at = this.skipWord(this.at, word);
    return value;
  }

  /** Checks a value without decoding it. `depth` containers are open around it. No recursion: `KINDS` says what is open. */
  private raw(depth: number): RawJson {
    const kinds = KINDS;
    let open = 0;
    this.peek();
    const start = this.at;
    let at = start;
    for (;;) {
      at = this.spaceEnd(at);
      const byte = at < this.end ? (this.body[at] as number) : -1;
      let opened = false;
      if (byte === QUOTE) at = this.skipString(at);
      else if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) {
        open++;
        if (depth + open > DEPTH_MAX) throw this.refusal(`Nested deeper than ${DEPTH_MAX}`, at);
        kinds[open] = byte;
        at = this.spaceEnd(at + 1);
        opened = !(at < this.end && this.body[at] === byte + 2);
        if (opened && byte === OPEN_OBJECT) at = this.skipKey(at);
      } else if (byte === MINUS || (byte >= 0x30 && byte <= 0x39)) at = this.skipNumber(at);
      else if (byte === 0x74) at = this.skipWord(at, 'true');
      else if (byte === 0x66) at = this.skipWord(at, 'false');
      else if (byte === 0x6e) at = this.skipWord(at, 'null');
      else throw this.unexpected(at);
      // A value has ended (or an empty container is about to): close what closes, up to the comma before the next value.
      while (!opened) {
        if (open === 0) {
          this.at = at;
          return new RawJson(this.body, start, at);
        }
        at = this.spaceEnd(at);
        const next = at < this.end ? this.body[at] : -1;
        const kind = kinds[open] as number;
        if (next === COMMA) {
          at = kind === OPEN_OBJECT ? this.skipKey(this.spaceEnd(at + 1)) : at + 1;
          opened = true;
        } else if (next === kind + 2) {
          at++;
          open--;
        } else throw this.unexpected(at);
      }
    }
  }

  /** From the quote of a key to behind its colon. */
  private skipKey(from: number): number {
    if (from >= this.end || this.body[from] !== QUOTE) throw this.unexpected(from);
    const at = this.spaceEnd(this.skipString(from));
    if (at >= this.end || this.body[at] !== COLON) throw this.unexpected(at);
    return at + 1;
  }

  /** From the opening quote to behind the closing one. */
  private skipString(from: number): number {
    const body = this.body;
    const end = this.end;
    let at = from + 1;
    for (;;) {
      while (at < end && ((IN_STRING[body[at] as number] as number) & STOPS) === 0) at++;
      if (at >= end) throw this.refusal('A string does not end', from);
      const byte = body[at] as number;
      if (byte === QUOTE) return at + 1;
      if (byte !== BACKSLASH) throw this.refusal('A control character in a string', at);
      const next = at + 1 < end ? (body[at + 1] as number) : -1;
      if (!ESCAPE.has(next)) throw this.refusal('A bad escape in a string', at);
      at += 2;
      if (next !== 0x75) continue;
      for (let i = 0; i < 4; i++, at++) {
        if (at >= end || HEX[body[at] as number] === 0) throw this.refusal('A bad escape in a string', at);
      }
    }
  }

  /** From the first character of a number to behind its last: `-? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)?` */
  private skipNumber(from: number): number {
    const body = this.body;
    const end = this.end;
    let at = body[from] === MINUS ? from + 1 : from;
    if (at < end && body[at] === 0x30) at++;
    else at = this.skipDigits(at);
    if (at < end && body[at] === 0x2e) at = this.skipDigits(at + 1);
    if (at < end && ((body[at] as number) | 0x20) === 0x65) {
      at++;
      if (at < end && (body[at] === 0x2b || body[at] === MINUS)) at++;
      at = this.skipDigits(at);
    }
    return at;
  }

  private skipDigits(from: number): number {
    const body = this.body;
    let at = from;
    while (at < this.end && (body[at] as number) >= 0x30 && (body[at] as number) <= 0x39) at++;
    if (at === from) throw this.unexpected(at);
    return at;
  }

  private skipWord(from: number, word: string): number {
    for (let i = 0; i < word.length; i++) {
      if (from + i >= this.end || this.body[from + i] !== word.charCodeAt(i)) throw this.unexpected(from + i);
    }
    return from + word.length;
  }

  /** The next byte that is not space, not consumed; -1 at the end. */
  private peek(): number {
    if (this.at < this.end) {
      const byte = this.body[this.at] as number;
      if (byte > 0x20) return byte;
    }
    this.at = this.spaceEnd(this.at);
    return this.at < this.end ? (this.body[this.at] as number) : -1;
  }

  private spaceEnd(from: number): number {
    const body = this.body;
    let at = from;
    while (at < this.end) {
      const byte = body[at] as number;
      if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) break;
      at++;
    }
    return at;
  }

  private unexpected(at = this.at): Refusal {
    return this.refusal(at >= this.end ? 'The body ends too early' : 'An unexpected character', at);
  }

  private refusal(message: string, at = this.at): Refusal {
    return new Refusal(`${message} (at byte ${Math.min(at, this.end)}).`);
  }
}
