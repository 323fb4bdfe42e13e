// The forms that text can have on the wire: one row for each pattern, with the words a caller reads when it does not fit,
// and the formats that no pattern can say. The generated validators call into this file.

/** Written with the `u` flag in mind: a lone surrogate counts as a character of its own and is refused. */
export const PATTERN = {
  text: '^[^\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\ud800-\\udfff]*$',
  visible_ascii: '^[\\x21-\\x7e]+$',
  header_name: "^[A-Za-z0-9!#$%&'*+.^_`|~\\x2d]+$",
  header_value: '^[\\t\\x20-\\x7e]*$',
  limiter_name: '^[A-Za-z0-9\\x2d]{1,64}$',
  label_key: '^[a-z0-9_.\\x2d]{1,32}$',
  label_parameter: '^label\\.[a-z0-9_.\\x2d]{1,32}$',
} as const;

const PATTERN_MESSAGE: Record<keyof typeof PATTERN, string> = {
  text: 'must be well-formed text without control characters (\\n and \\t aside)',
  visible_ascii: 'must be visible ASCII characters',
  header_name: 'is not a valid header name',
  header_value: 'must be visible ASCII characters, spaces and tabs',
  limiter_name: 'must be 1 to 64 letters, digits and hyphens',
  label_key: 'is not a valid label key (1 to 32 of a-z, 0-9, "_", "." and "-")',
  label_parameter: 'is not a known parameter',
};

const MESSAGE_OF = new Map(
  Object.entries(PATTERN).map(([name, pattern]) => [pattern as string, PATTERN_MESSAGE[name as keyof typeof PATTERN]]),
);

/** What to tell a caller whose text does not match `pattern`. */
export function patternMessage(pattern: string): string {
  return MESSAGE_OF.get(pattern) ?? 'has characters that are not allowed';
}

/**
 * Checked formats. URLs have none: `urlFault` in task-rules.ts checks them, and takes what the format `uri` does not, such as
 * `http://münchen.de`; they are echoed as they were sent.
 */
export const FORMATS: Record<string, (text: string) => boolean> = {
  'date-time': (text) => timestampMs(text) !== null,
};

export const FORMAT_MESSAGE: Record<string, string> = {
  'date-time': 'must be an RFC 3339 timestamp, such as 2026-01-31T09:00:00Z',
};

const DAYS_IN_MONTH = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
const TIMESTAMP_LENGTH_MAX = 64;
/** The last that is written with four digits of the year. */
const LATEST_MS = Date.UTC(9999, 11, 31, 23, 59, 59, 999);

/**
 * An RFC 3339 date-time with an offset, in milliseconds since the epoch (cut, not rounded), or null where `text` is none.
 * Stricter than Date, which takes "1" and turns 30 February into 2 March: no impossible date, no second 60. At least 1, which is
 * what all times before 1970 are, since 0 stands for no time at all.
 */
export function timestampMs(text: string): number | null {
  if (text !== last_text) [last_text, last_ms] = [text, readTimestamp(text)];
  return last_ms;
}

/** Each is asked for by its schema, by the rules of a task and by the intake, and neighbours in a batch often have the same. */
let last_text = '';
let last_ms: number | null = null;

function readTimestamp(text: string): number | null {
  // 2026-01-31T09:00:00Z is the shortest
  if (text.length < 20 || text.length > TIMESTAMP_LENGTH_MAX) return null;
  const year = digits(text, 0, 4);
  const month = digits(text, 5, 2);
  const day = digits(text, 8, 2);
  const hour = digits(text, 11, 2);
  const minute = digits(text, 14, 2);
  const second = digits(text, 17, 2);
  if (year < 0 || month < 1 || month > 12 || day < 1 || hour < 0 || hour > 23) return null;
  if (minute < 0 || minute > 59 || second < 0 || second > 59) return null;
  if (day > (DAYS_IN_MONTH[month - 1] as number) || (month === 2 && day === 29 && !isLeapYear(year))) return null;
  if (text[4] !== '-' || text[7] !== '-' || (text[10] !== 'T' && text[10] !== 't') || text[13] !== ':' || text[16] !== ':') return null;

  let at = 19;
  let fraction_ms = 0;
  if (text[at] === '.') {
    at++;
    const start = at;
    for (let weight = 100; isDigit(text, at); at++, weight /= 10) fraction_ms += weight >= 1 ? weight * (text.charCodeAt(at) - 48) : 0;
    if (at === start) return null;
  }
  const offset_min = offset(text, at);
  if (offset_min === null) return null;
  // Date.UTC takes 99 for 1999.
  if (year < 100) return 1;
  return Math.min(Math.max(Date.UTC(year, month - 1, day, hour, minute - offset_min, second) + fraction_ms, 1), LATEST_MS);
}

/** `Z` or `+hh:mm` up to the end of the text, in minutes. */
function offset(text: string, at: number): number | null {
  const sign = text[at];
  if (sign === 'Z' || sign === 'z') return text.length === at + 1 ? 0 : null;
  if ((sign !== '+' && sign !== '-') || text.length !== at + 6 || text[at + 3] !== ':') return null;
  const hours = digits(text, at + 1, 2);
  const minutes = digits(text, at + 4, 2);
  if (hours < 0 || hours > 23 || minutes < 0 || minutes > 59) return null;
  return (sign === '-' ? -1 : 1) * (hours * 60 + minutes);
}

/** The number in `count` digits, -1 where one of them is none. */
function digits(text: string, at: number, count: number): number {
  let value = 0;
  for (let i = at; i < at + count; i++) {
    if (!isDigit(text, i)) return -1;
    value = value * 10 + (text.charCodeAt(i) - 48);
  }
  return value;
}

function isDigit(text: string, at: number): boolean {
  const code = text.charCodeAt(at);
  return code >= 48 && code <= 57;
}

function isLeapYear(year: number): boolean {
  return year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
}

/** Characters as a person counts them; a pair of surrogates is one. */
export function codePoints(text: string): number {
  let count = text.length;
  for (let i = 0; i < text.length - 1; i++) {
    if ((text.charCodeAt(i) & 0xfc00) === 0xd800 && (text.charCodeAt(i + 1) & 0xfc00) === 0xdc00) {
      count--;
      i++;
    }
  }
  return count;
}
