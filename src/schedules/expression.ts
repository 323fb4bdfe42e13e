// Cron expressions: what is accepted, and what an accepted one means as plain data.
//
// cron-parser parses and validates; it also takes much that a person did not mean (`*/100`, three fields, wrapping
// ranges, `H`, which is drawn anew at each parse), so the dialect is checked first. When it fires is computed in next.ts.
import { CronExpressionParser } from 'cron-parser';

/** What an expression says, sorted, as numbers: days from 1, months from 1, weekdays from 0 = Sunday. Structured-cloneable. */
export interface CronFields {
  readonly seconds: readonly number[];
  readonly minutes: readonly number[];
  readonly hours: readonly number[];
  readonly months: readonly number[];
  /** Days of the month; null: any. */
  readonly days: DaysOfMonth | null;
  /** Days of the week; null: any. Where both are given, one of them is enough. */
  readonly weekdays: DaysOfWeek | null;
}

export interface DaysOfMonth {
  readonly days: readonly number[];
  /** `L`: the last day of the month. */
  readonly last: boolean;
}

export interface DaysOfWeek {
  readonly weekdays: readonly number[];
  /** `5L`: the last Friday of the month. */
  readonly last: readonly number[];
  /** `5#2`: the second Friday; then it is the only one of `weekdays`. 0: none. */
  readonly nth: number;
}

export type ParsedCron = { ok: true; fields: CronFields } | { ok: false; message: string };

/** Longer than any expression that says something. */
export const CRON_LENGTH_MAX = 256;

interface FieldRule {
  name: string;
  first: number;
  /** How many values the field has: no step is wider. */
  values: number;
  words: readonly string[];
  /** What an item may be besides numbers, ranges and steps. */
  special: RegExp | null;
}

const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];
const WEEKDAYS = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'];

const RULES: readonly FieldRule[] = [
  { name: 'second', first: 0, values: 60, words: [], special: null },
  { name: 'minute', first: 0, values: 60, words: [], special: null },
  { name: 'hour', first: 0, values: 24, words: [], special: null },
  { name: 'day of month', first: 1, values: 31, words: [], special: /^(\?|L)$/ },
  { name: 'month', first: 1, values: 12, words: MONTHS, special: null },
  { name: 'day of week', first: 0, values: 7, words: WEEKDAYS, special: /^(\?|([0-7]|sun|mon|tue|wed|thu|fri|sat)(L|#[1-5]))$/i },
];

/** cron-parser knows the other names. */
const NAMES: Readonly<Record<string, string>> = {
  '@yearly': '0 0 1 1 *',
  '@annually': '0 0 1 1 *',
  '@monthly': '0 0 1 * *',
  '@weekly': '0 0 * * 0',
  '@daily': '0 0 * * *',
  '@midnight': '0 0 * * *',
  '@hourly': '0 * * * *',
  '@minutely': '* * * * *',
  '@secondly': '* * * * * *',
  '@weekdays': '0 0 * * 1-5',
  '@weekends': '0 0 * * 0,6',
};

const parsed = new Map<string, ParsedCron>();
const PARSED_MAX = 4_096;

/** Reads an expression of five fields, six with leading seconds, or a name such as `@hourly`. Remembered by its text. */
export function parseCron(text: string): ParsedCron {
  const known = parsed.get(text);
  if (known !== undefined) return known;
  const result = parse(text);
  if (text.length <= CRON_LENGTH_MAX) {
    if (parsed.size >= PARSED_MAX) parsed.clear();
    parsed.set(text, result);
  }
  return result;
}

function parse(text: string): ParsedCron {
  if (text.length > CRON_LENGTH_MAX) return { ok: false, message: `It must have at most ${CRON_LENGTH_MAX} characters.` };
  const trimmed = text.trim();
  const spelled = Object.hasOwn(NAMES, trimmed) ? (NAMES[trimmed] as string) : trimmed;
  if (spelled.startsWith('@')) return { ok: false, message: `"${spelled}" is not one of ${Object.keys(NAMES).join(', ')}.` };
  const given = spelled.split(/[ \t]+/);
  if (given.length < 5 || given.length > 6) return { ok: false, message: 'It must have five fields, or six with leading seconds.' };
  const fields = given.length === 5 ? ['0', ...given] : given;
  for (const [i, rule] of RULES.entries()) {
    const fault = fieldFault(fields[i] ?? '', rule);
    if (fault !== null) return { ok: false, message: `The ${rule.name} field ${fault}.` };
    fields[i] = spread(fields[i] ?? '', rule);
  }
  const [second = '', minute = '', hour = '', day = '', month = '', weekday = ''] = fields;
  try {
    // In two steps, since cron-parser refuses 30 February as malformed, and we say that it never fires.
    const times = CronExpressionParser.parse([second, minute, hour, day, '*', weekday].join(' ')).fields;
    const months = CronExpressionParser.parse(`0 0 0 * ${month} *`).fields.month;
    return {
      ok: true,
      fields: {
        seconds: numbers(times.second.values),
        minutes: numbers(times.minute.values),
        hours: numbers(times.hour.values),
        months: numbers(months.values),
        days: times.dayOfMonth.isWildcard
          ? null
          : { days: numbers(times.dayOfMonth.values), last: (times.dayOfMonth.values as readonly unknown[]).includes('L') },
        weekdays: times.dayOfWeek.isWildcard ? null : weekdaysOf(times.dayOfWeek.values, times.dayOfWeek.nthDay),
      },
    };
  } catch (error) {
    return { ok: false, message: said(error) };
  }
}

/** What is wrong with the form of a field, to be put behind its name; null where nothing is. */
function fieldFault(field: string, rule: FieldRule): string | null {
  const { first, values, words, special } = rule;
  const items = field.split(',');
  for (const item of items) {
    if (special?.test(item) === true) {
      if (items.length > 1 && /[?#]/.test(item)) return `has "${item}" in a list`;
      continue;
    }
    const [range = '', step, ...rest] = item.split('/');
    if (rest.length > 0) return `has "${item}", which is not a value, a range or a step`;
    if (step !== undefined && !(/^\d{1,2}$/.test(step) && Number(step) >= 1 && Number(step) <= values)) {
      return `has a step in "${item}" that is not a number from 1 to ${values}`;
    }
    if (range === '*') continue;
    const [from = '', to, ...more] = range.split('-');
    const [low, high] = [numberOf(from, words), to === undefined ? null : numberOf(to, words)];
    if (more.length > 0 || low === null || (to !== undefined && high === null)) {
      return `has "${item}", which is not a value, a range or a step`;
    }
    if (high !== null && low > high) return `has the range "${range}", which runs backwards`;
    if (low < first || (high ?? low) > lastOf(rule)) return `has "${item}", which is not within ${first} to ${lastOf(rule)}`;
  }
  return null;
}

function numberOf(text: string, words: readonly string[]): number | null {
  const word = words.indexOf(text.toLowerCase());
  if (word >= 0) return words === MONTHS ? word + 1 : word;
  return /^\d{1,2}$/.test(text) ? Number(text) : null;
}

/** Sunday is 0 and 7. */
function lastOf({ first, values, words }: FieldRule): number {
  return first + values - (words === WEEKDAYS ? 0 : 1);
}

/** A well-formed list as its values, each once: cron-parser refuses lists that name one twice, such as `0-10,5`. */
function spread(field: string, rule: FieldRule): string {
  const { first, words, special } = rule;
  const items = field.split(',');
  if (items.length === 1) return field;
  const last = lastOf(rule);
  const named = new Set<string>();
  for (const item of items) {
    const [range = '', step] = item.split('/');
    const [from = '', to] = range.split('-');
    const low = range === '*' ? first : numberOf(from, words);
    if (special?.test(item) === true || low === null) {
      named.add(item);
      continue;
    }
    const alone = to === undefined && step === undefined && range !== '*';
    const high = alone ? low : to === undefined ? Math.max(low, last) : (numberOf(to, words) ?? low);
    for (let value = low; value <= high; value += Number(step ?? 1)) named.add(String(words === WEEKDAYS && value === 7 ? 0 : value));
  }
  return [...named].join(',');
}

/** cron-parser's words, but for its class names. */
function said(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return `${text.replace(/\.$/, '')}.`;
}

function numbers(values: readonly (number | string)[]): number[] {
  return values.filter((value) => typeof value === 'number').sort((a, b) => a - b);
}

/** Sunday is 0 and 7. */
function weekdaysOf(values: readonly (number | string)[], nth: number): DaysOfWeek {
  const last = values.filter((value) => typeof value === 'string').map((value) => Number.parseInt(value, 10) % 7);
  return { weekdays: [...new Set(numbers(values).map((day) => day % 7))].sort((a, b) => a - b), last, nth };
}
