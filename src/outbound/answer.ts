// Reads what matters of an answer: six headers, and an excerpt of the body where that is text.
// Runs for every callback, so headers are compared as bytes and only a match becomes a string.
import { EXCERPT_BYTES_MAX, POINTS_USED_MAX, RETRY_AFTER_MS_MAX } from './call.ts';

/** What the headers of an answer said. A call carries these fields itself, so that reading them allocates nothing. */
export interface AnswerHead {
  /** Bytes of body announced; -1 where none was. */
  content_length: number;
  /** The body is compressed: never unpacked, so there is no excerpt. */
  encoded: boolean;
  /** Declared as `text/…`: shown even where its character set is not UTF-8. */
  textual: boolean;
  retry_after: string | null;
  retry_never: boolean;
  points_used: number | null;
}

/** The headers that are read of an answer. */
export const HEADERS_READ = [
  'retry-after',
  'content-type',
  'x-points-used',
  'content-length',
  'x-sluice-retry',
  'content-encoding',
] as const;

/** Copies what `headers` (raw name, value pairs) say into `into`. The first of a repeated header counts. */
export function readHead(headers: readonly Buffer[], into: AnswerHead): void {
  for (let i = 0; i + 1 < headers.length; i += 2) {
    const name = headers[i];
    const value = headers[i + 1];
    if (name === undefined || value === undefined) continue;
    switch (name.length) {
      case 11:
        if (into.retry_after === null && named(name, 'retry-after')) into.retry_after = value.toString('latin1').trim();
        break;
      case 12:
        if (named(name, 'content-type')) into.textual = value.length > 5 && named(value.subarray(0, 5), 'text/');
        break;
      case 13:
        if (into.points_used === null && named(name, 'x-points-used')) into.points_used = points(value);
        break;
      case 14:
        if (named(name, 'content-length')) into.content_length = digits(value);
        else if (named(name, 'x-sluice-retry')) into.retry_never = value.toString('latin1').trim().toLowerCase() === 'never';
        break;
      case 16:
        if (named(name, 'content-encoding')) into.encoded = value.toString('latin1').trim().toLowerCase() !== 'identity';
        break;
    }
  }
}

/** Are the bytes from `from` on this name? `name` in lower case. */
export function named(bytes: Buffer, name: string, from = 0): boolean {
  for (let i = 0; i < name.length; i++) if (((bytes[from + i] ?? 0) | 0x20) !== name.charCodeAt(i)) return false;
  return true;
}

/** A decimal number, or -1 where it is none or too large to matter exactly. */
export function digits(bytes: Buffer, from = 0, to = bytes.length): number {
  if (to === from || to - from > 15) return -1;
  let value = 0;
  for (let i = from; i < to; i++) {
    const digit = (bytes[i] ?? 0) - 0x30;
    if (digit < 0 || digit > 9) return -1;
    value = value * 10 + digit;
  }
  return value;
}

function points(bytes: Buffer): number | null {
  const text = bytes.toString('latin1').trim();
  return /^\d+$/.test(text) ? Math.min(Number(text), POINTS_USED_MAX) : null;
}

/** The three date formats of RFC 9110, all in GMT; `Date.parse` alone takes far more. */
const HTTP_DATE = /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6},? [\w :-]{16,26}$/;

/** `Retry-After` (RFC 9110 10.2.3: seconds or a date) as milliseconds from `now_ms`, at most one hour; null where it is neither. */
export function retryAfterMs(value: string, now_ms: number): number | null {
  if (/^\d{1,12}$/.test(value)) return Math.min(Number(value) * 1000, RETRY_AFTER_MS_MAX);
  if (!HTTP_DATE.test(value)) return null;
  const at_ms = Date.parse(value.endsWith('GMT') ? value : `${value} GMT`);
  if (Number.isNaN(at_ms)) return null;
  return Math.min(Math.max(at_ms - now_ms, 0), RETRY_AFTER_MS_MAX);
}

// Control characters but for tab, line feed and carriage return: none of them belongs into text that people read.
const CONTROL = /[^\P{Cc}\t\n\r]/u;
const CONTROLS = new RegExp(CONTROL.source, 'gu');

/**
 * The first `EXCERPT_BYTES_MAX` bytes as text; null where they are not text. `cut` tells that more bytes came, so that
 * a character broken at the end is left out. `textual` content that is not UTF-8 is shown with replacement characters.
 */
export function excerptOf(bytes: Buffer, cut: boolean, textual: boolean): string | null {
  const kept = bytes.length > EXCERPT_BYTES_MAX ? bytes.subarray(0, EXCERPT_BYTES_MAX) : bytes;
  if (kept.length === 0) return null;
  if (isPlainAscii(kept)) return kept.toString('latin1');
  const more = cut || kept.length < bytes.length;
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(kept, { stream: more });
    if (!CONTROL.test(text)) return text;
  } catch {
    // Not UTF-8.
  }
  return textual ? new TextDecoder().decode(kept, { stream: more }).replace(CONTROLS, '\ufffd') : null;
}

function isPlainAscii(bytes: Buffer): boolean {
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i] ?? 0;
    if (byte > 0x7e || (byte < 0x20 && byte !== 0x09 && byte !== 0x0a && byte !== 0x0d)) return false;
  }
  return true;
}
