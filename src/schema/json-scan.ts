// The tokens of JSON, found but not decoded. Every function takes a place in the body and returns the place behind its
// token, or throws a `Refusal`, which parseJson in json.ts turns into a value; nobody else calls these.

/** Leaves the recursion at the first fault; made without a stack trace and never seen outside the reader. */
export class Refusal {
  readonly message: string;
  constructor(message: string) {
    this.message = message;
  }
}

export const QUOTE = 0x22;
export const COMMA = 0x2c;
export const MINUS = 0x2d;
export const COLON = 0x3a;
export const OPEN_ARRAY = 0x5b;
export const BACKSLASH = 0x5c;
export const CLOSE_ARRAY = 0x5d;
export const OPEN_OBJECT = 0x7b;
export const CLOSE_OBJECT = 0x7d;

/** What a byte inside a string is. */
export const ENDS = 1;
export const ESCAPES = 2;
const FORBIDDEN = 4;
export const NOT_ASCII = 8;
export const IN_STRING = Uint8Array.from({ length: 256 }, (_, byte) => {
  if (byte === QUOTE) return ENDS;
  if (byte === BACKSLASH) return ESCAPES;
  if (byte < 0x20) return FORBIDDEN;
  return byte >= 0x80 ? NOT_ASCII : 0;
});
export const STOPS = ENDS | ESCAPES | FORBIDDEN;

/** What may follow a backslash. */
const ESCAPE = new Set([...'"\\/bfnrtu'].map((char) => char.charCodeAt(0)));
const HEX = Uint8Array.from({ length: 256 }, (_, byte) => (/[0-9a-fA-F]/.test(String.fromCharCode(byte)) ? 1 : 0));


// Bytes are read as `body[at] as number`: every such read stands behind a check of `at` against the end.

/** From the quote of a key to behind its colon. */
export function skipKey(body: Buffer, from: number): number {
  if (from >= body.length || body[from] !== QUOTE) throw unexpected(body, from);
  const at = spaceEnd(body, skipString(body, from));
  if (at >= body.length || body[at] !== COLON) throw unexpected(body, at);
  return at + 1;
}

/** From the opening quote to behind the closing one. */
export function skipString(body: Buffer, from: number): number {
  const end = body.length;
  let at = from + 1;
  for (;;) {
    while (at < end && ((IN_STRING[body[at] as number] as number) & STOPS) === 0) at++;
    if (at >= end) throw refusal('A string does not end', from);
    const byte = body[at] as number;
    if (byte === QUOTE) return at + 1;
    if (byte !== BACKSLASH) throw refusal('A control character in a string', at);
    const next = at + 1 < end ? (body[at + 1] as number) : -1;
    if (!ESCAPE.has(next)) throw refusal('A bad escape in a string', at);
    at += 2;
    if (next !== 0x75) continue;
    for (let i = 0; i < 4; i++, at++) {
      if (at >= end || HEX[body[at] as number] === 0) throw refusal('A bad escape in a string', at);
    }
  }
}

/** From the first character of a number to behind its last: `-? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)?` */
export function skipNumber(body: Buffer, from: number): number {
  const end = body.length;
  let at = body[from] === MINUS ? from + 1 : from;
  if (at < end && body[at] === 0x30) at++;
  else at = skipDigits(body, at);
  if (at < end && body[at] === 0x2e) at = skipDigits(body, at + 1);
  if (at < end && ((body[at] as number) | 0x20) === 0x65) {
    at++;
    if (at < end && (body[at] === 0x2b || body[at] === MINUS)) at++;
    at = skipDigits(body, at);
  }
  return at;
}

export function skipDigits(body: Buffer, from: number): number {
  let at = from;
  while (at < body.length && (body[at] as number) >= 0x30 && (body[at] as number) <= 0x39) at++;
  if (at === from) throw unexpected(body, at);
  return at;
}

export function skipWord(body: Buffer, from: number, word: string): number {
  for (let i = 0; i < word.length; i++) {
    if (from + i >= body.length || body[from + i] !== word.charCodeAt(i)) throw unexpected(body, from + i);
  }
  return from + word.length;
}

export function spaceEnd(body: Buffer, from: number): number {
  let at = from;
  while (at < body.length) {
    const byte = body[at] as number;
    if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) break;
    at++;
  }
  return at;
}

export function unexpected(body: Buffer, at: number): Refusal {
  return at >= body.length ? refusal('The body ends too early', body.length) : refusal('An unexpected character', at);
}

export function refusal(message: string, at: number): Refusal {
  return new Refusal(`${message} (at byte ${at}).`);
}
