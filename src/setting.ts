// The kinds of settings: how the text of an environment variable becomes a value, and what is said of one that cannot.
import { isIP } from 'node:net';

export interface Setting<T> {
  /** Name without the prefix. */
  env: string;
  /** As it would be written; null where not giving it is a value of its own. */
  default: string | null;
  /** Shown instead of `default` where that depends on something. */
  default_text?: string;
  unit?: string;
  range: string;
  meaning: string;
  secret?: boolean;
  /** Value of the text, or throws an Error whose message completes "SLUICE_X …". */
  parse(text: string): T;
  /** Value where neither the environment nor `default` gives one. */
  absent?: T;
}

export interface AccountToken {
  account: string;
  token: string;
}

export function setting<T>(row: Setting<T>): Setting<T> {
  return row;
}

export function text(row: Omit<Setting<string>, 'parse'>): Setting<string> {
  return { ...row, parse: visibleOrSpace };
}

export function optional(row: Setting<string>): Setting<string> {
  return row;
}

export function bool(row: Omit<Setting<boolean>, 'parse' | 'range'>): Setting<boolean> {
  const parse = (value: string): boolean => {
    const lower = value.toLowerCase();
    if (['true', '1', 'yes', 'on'].includes(lower)) return true;
    if (['false', '0', 'no', 'off'].includes(lower)) return false;
    throw new Error('must be true or false');
  };
  return { ...row, range: 'true, false', parse };
}

export function integer({ min, max, ...row }: Omit<Setting<number>, 'parse' | 'range'> & { min: number; max: number }): Setting<number> {
  const parse = (value: string): number => {
    const number = /^\d{1,15}$/.test(value) ? Number(value) : Number.NaN;
    if (!(number >= min && number <= max)) throw new Error(`must be a whole number from ${min} to ${max}`);
    return number;
  };
  return { ...row, range: `${min} to ${max}`, parse };
}

export function limit(row: Omit<Setting<number>, 'parse' | 'range'>): Setting<number> {
  return integer({ ...row, meaning: `${row.meaning} 0 = no limit.`, min: 0, max: 1_000_000 });
}

/** Milliseconds; text is in seconds or carries a unit. */
export function duration({
  min_s,
  max_s,
  ...row
}: Omit<Setting<number>, 'parse' | 'range'> & { min_s: number; max_s: number }): Setting<number> {
  return { ...row, unit: 'duration', range: `${min_s}s to ${spell(max_s)}`, parse: (value) => readDuration(value, min_s, max_s) };
}

/** Milliseconds each. */
export function durations({
  min_s,
  max_s,
  items_max,
  ...row
}: Omit<Setting<readonly number[]>, 'parse' | 'range'> & { min_s: number; max_s: number; items_max: number }): Setting<readonly number[]> {
  const parse = (value: string): number[] => bounded(list(value), items_max, 'durations').map((item) => readDuration(item, min_s, max_s));
  return { ...row, unit: 'durations', range: `1 to ${items_max} of them, ${min_s}s to ${spell(max_s)} each`, parse };
}

export function cidrs(row: { env: string; meaning: string }): Setting<readonly string[]> {
  const parse = (value: string): string[] => bounded(list(value), 1_000, 'ranges').map(readCidr);
  return { ...row, default: null, default_text: 'none', range: '`10.1.0.0/16,fd00::/8`', parse, absent: [] };
}

const UNIT_S: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600, d: 86_400 };

function readDuration(value: string, min_s: number, max_s: number): number {
  const match = /^(\d{1,10}(?:\.\d{1,3})?)([smhd]?)$/.exec(value);
  const seconds = match === null ? Number.NaN : Number(match[1]) * (UNIT_S[match[2] || 's'] ?? Number.NaN);
  if (!(seconds >= min_s && seconds <= max_s)) {
    throw new Error(`must be a duration from ${min_s}s to ${spell(max_s)}: seconds, or a number with s, m, h or d`);
  }
  return Math.round(seconds * 1_000);
}

function spell(seconds: number): string {
  for (const unit of ['d', 'h', 'm']) {
    const size = UNIT_S[unit] ?? 1;
    if (seconds >= size && seconds % size === 0) return `${seconds / size}${unit}`;
  }
  return `${seconds}s`;
}

function readCidr(value: string): string {
  const [address = '', prefix, ...rest] = value.split('/');
  const family = isIP(address);
  const bits = family === 4 ? 32 : 128;
  const length = prefix === undefined ? bits : /^\d{1,3}$/.test(prefix) ? Number(prefix) : Number.NaN;
  if (family === 0 || rest.length > 0 || !(length <= bits)) throw new Error('must be addresses or ranges such as 10.1.0.0/16 or fd00::/8');
  return `${address}/${length}`;
}

export function parseTokens(value: string): AccountToken[] {
  const pairs = bounded(list(value), 1_000, 'tokens').map((item) => {
    const at = item.indexOf('=');
    const account = item.slice(0, Math.max(at, 0));
    const token = item.slice(at + 1);
    if (!/^[\x21-\x7e]{1,64}$/.test(account) || token === '' || token.length > 256 || !/^[\x21-\x7e]+$/.test(token)) {
      throw new Error('must be written as account=token,account2=token2');
    }
    return { account, token };
  });
  if (new Set(pairs.map(({ token }) => token)).size < pairs.length) throw new Error('gives one token twice');
  return pairs;
}

export function list(value: string): string[] {
  const items = value.split(',').map((item) => item.trim());
  if (items.some((item) => item === '')) throw new Error('must be a list with commas between its items');
  return items;
}

function bounded<T>(items: T[], max: number, what: string): T[] {
  if (items.length > max) throw new Error(`must not hold more than ${max} ${what}`);
  return items;
}

export function oneOf<T extends string>(value: string, allowed: readonly T[]): T {
  const found = allowed.find((item) => item === value);
  if (found === undefined) throw new Error(`must be made of: ${allowed.join(', ')}`);
  return found;
}

export function visible(value: string): string {
  if (!/^[\x21-\x7e]{1,256}$/.test(value)) throw new Error('must be 1 to 256 visible ASCII characters');
  return value;
}

function visibleOrSpace(value: string): string {
  if (/\p{Cc}/u.test(value)) throw new Error('must not hold control characters');
  return value;
}
