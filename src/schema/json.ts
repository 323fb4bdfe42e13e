// Our own JSON reader (RFC 8259, strict), for two things that JSON.parse cannot do: a payload keeps the very bytes it
// came with, and what JSON.parse silently mends (repeated keys, `__proto__`, bad UTF-8, 1e400) is refused.
//
// One pass over the bytes. A value under a raw key is checked for syntax and left where it is (`RawJson`); everything
// else, "our own levels", becomes plain objects. Bounded by: nesting 64, keys of an object 1,024, and a number of
// values that no valid body of the size can reach, so a body cannot cost many times its size in memory.
import { isUtf8 } from 'node:buffer';
import { type JsonOptions, Refusal } from './json-parts.ts';
import { DEPTH_MAX, Reader } from './json-reader.ts';
import { RawJson } from './raw-json.ts';

export { DEPTH_MAX, RawJson };

/** How every body of the API is read. */
export const BODY_JSON: JsonOptions = { raw_keys: new Set(['payload']), open_keys: new Set(['headers', 'labels']) };

export type JsonResult = { ok: true; value: unknown } | { ok: false; message: string };

/** Reads a whole body. Never throws; `message` says what is wrong and at which byte. */
export function parseJson(body: Buffer, options: JsonOptions = BODY_JSON): JsonResult {
  if (body.length === 0) return { ok: false, message: 'The body is empty.' };
  if (!isUtf8(body)) return { ok: false, message: 'The body is not valid UTF-8.' };
  if (body[0] === 0xef && body[1] === 0xbb && body[2] === 0xbf) return { ok: false, message: 'The body begins with a byte order mark.' };
  try {
    return { ok: true, value: new Reader(body, options).document() };
  } catch (error) {
    if (error instanceof Refusal) return { ok: false, message: error.message };
    throw error;
  }
}
