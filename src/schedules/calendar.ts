// Which local days and which times of a day an expression names, without any time zone. Pure arithmetic on days since
// 1970-01-01 and seconds since midnight.
import type { CronFields } from './expression.ts';

export const DAY_MS = 86_400_000;
export const DAY_S = 86_400;

/** An expression, made for look-up. */
export interface Pattern {
  readonly fields: CronFields;
  /** By month, 0 = January. */
  readonly months: readonly boolean[];
  /** The hour field names all 24: the expression means real time, not times of day. */
  readonly all_hours: boolean;
  /** How many times a plain day has. */
  readonly times: number;
}

const patterns = new WeakMap<CronFields, Pattern>();

export function patternOf(fields: CronFields): Pattern {
  let pattern = patterns.get(fields);
  if (pattern === undefined) {
    const { seconds, minutes, hours, months } = fields;
    pattern = {
      fields,
      months: Array.from({ length: 12 }, (_, i) => months.includes(i + 1)),
      all_hours: hours.length === 24,
      times: seconds.length * minutes.length * hours.length,
    };
    patterns.set(fields, pattern);
  }
  return pattern;
}

/** How far a day is looked for: 29 February on a Friday comes every 28 or 40 years. */
const MONTHS_AHEAD_MAX = 50 * 12;

/** The first day from `day` on that the pattern names; null where there is none within 50 years. */
export function nextDay(pattern: Pattern, day: number): number | null {
  const date = new Date(day * DAY_MS);
  let year = date.getUTCFullYear();
  let month = date.getUTCMonth();
  let from = date.getUTCDate();
  for (let i = 0; i < MONTHS_AHEAD_MAX; i++) {
    if (pattern.months[month] === true) {
      const first = Date.UTC(year, month, 1) / DAY_MS;
      const length = daysIn(year, month);
      const weekday = weekdayOf(first);
      for (let d = from; d <= length; d++) {
        if (namesDay(pattern.fields, d, length, (weekday + d - 1) % 7)) return first + d - 1;
      }
    }
    from = 1;
    month += 1;
    if (month === 12) {
      month = 0;
      year += 1;
    }
  }
  return null;
}

/** Whether day `d` of a month of `length` days, a `weekday`, is named: by its number, or by its weekday where both are given. */
function namesDay({ days, weekdays }: CronFields, d: number, length: number, weekday: number): boolean {
  if (days === null && weekdays === null) return true;
  if (days !== null && (days.days.includes(d) || (days.last && d === length))) return true;
  if (weekdays === null) return false;
  if (weekdays.last.includes(weekday) && d + 7 > length) return true;
  if (!weekdays.weekdays.includes(weekday)) return false;
  return weekdays.nth === 0 || Math.ceil(d / 7) === weekdays.nth;
}

function daysIn(year: number, month: number): number {
  return new Date(Date.UTC(year, month + 1, 0)).getUTCDate();
}

/** 1 January 1970 was a Thursday. */
function weekdayOf(day: number): number {
  return (((day + 4) % 7) + 7) % 7;
}

/** The first time of the pattern at or after `second` of a day; null where the day has none left. */
export function nextTime({ fields: { seconds, minutes, hours } }: Pattern, second: number): number | null {
  if (second >= DAY_S) return null;
  const s = Math.max(0, second);
  const [h0, m0, s0] = [Math.floor(s / 3600), Math.floor(s / 60) % 60, s % 60];
  const first = (minutes[0] as number) * 60 + (seconds[0] as number);
  const h = atLeast(hours, h0);
  if (h === null) return null;
  if (h > h0) return h * 3600 + first;
  const m = atLeast(minutes, m0);
  if (m !== null) {
    const sec = m > m0 ? (seconds[0] as number) : atLeast(seconds, s0);
    if (sec !== null) return h * 3600 + m * 60 + sec;
    const later = atLeast(minutes, m0 + 1);
    if (later !== null) return h * 3600 + later * 60 + (seconds[0] as number);
  }
  const later = atLeast(hours, h0 + 1);
  return later === null ? null : later * 3600 + first;
}

/** The first of sorted values that is not less. */
function atLeast(values: readonly number[], least: number): number | null {
  for (const value of values) if (value >= least) return value;
  return null;
}
