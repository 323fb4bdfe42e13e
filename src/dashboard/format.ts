// Numbers, times and names as people read them.
const NUMBER = new Intl.NumberFormat('en');
const TIME = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
const WEEKDAY = new Intl.DateTimeFormat('en', { weekday: 'short' });
/** Swedes write it as ISO 8601 does. */
const SORTABLE = new Intl.DateTimeFormat('sv', { dateStyle: 'short', timeStyle: 'medium' });
const RELATIVE = new Intl.RelativeTimeFormat('en', { numeric: 'auto', style: 'short' });

export function count(value: number): string {
  return NUMBER.format(value);
}

export function tasks(value: number): string {
  return `${count(value)} ${value === 1 ? 'task' : 'tasks'}`;
}

/** 0.0012 → `1.2 ms`; 3.4 → `3.4 s`. */
export function seconds(value: number): string {
  if (value === 0) return '0 s';
  if (value < 0.0005) return `${Math.round(value * 1e6)} µs`;
  if (value < 1) return `${trim(value * 1000)} ms`;
  if (value < 120) return `${trim(value)} s`;
  return value < 7200 ? `${trim(value / 60)} min` : `${trim(value / 3600)} h`;
}

/** 24 → `24 hours`; 0.5 → `30 min`. */
export function hours(value: number): string {
  if (value < 2) return seconds(value * 3600);
  return value < 72 ? `${count(value)} hours` : `${count(value / 24)} days`;
}

export function bytes(value: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  const power = value < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(value) / 10));
  return `${trim(value / 1024 ** power)} ${units[power]}`;
}

function trim(value: number): string {
  return value >= 100 ? String(Math.round(value)) : value.toPrecision(2).replace(/\.0$/, '');
}

export function time(timestamp: string): string {
  return TIME.format(new Date(timestamp));
}

/** The time on this reader's clocks as `zonedTime` writes those of another zone, with the day of the week. */
export function localTime(timestamp: string): string {
  const at = new Date(timestamp);
  return `${WEEKDAY.format(at)} ${SORTABLE.format(at)}`;
}

/** An instant as an input of a date and a time has it: on this reader's clocks, to the second. */
export function inputTime(timestamp: string): string {
  return SORTABLE.format(new Date(timestamp)).replace(' ', 'T');
}

/** `2026-03-29T03:30:00.000+02:00` → `2026-03-29 03:30:00 +02:00`: the time of another zone, as its clocks show it. */
export function zonedTime(local_time: string): string {
  return local_time
    .replace('T', ' ')
    .replace(/\.\d+/, '')
    .replace(/(?=[+-]\d\d:\d\d$)/, ' ');
}

/** `5 min ago`, `in 2 hr`. */
export function ago(timestamp: string, now_ms = Date.now()): string {
  const s = (new Date(timestamp).getTime() - now_ms) / 1000;
  const size = Math.abs(s);
  if (size < 60) return RELATIVE.format(Math.round(s), 'second');
  if (size < 3600) return RELATIVE.format(Math.round(s / 60), 'minute');
  if (size < 86_400) return RELATIVE.format(Math.round(s / 3600), 'hour');
  return RELATIVE.format(Math.round(s / 86_400), 'day');
}

/** An id as it fits into a table: its end is what tells it from the next. */
export function shortId(id: string): string {
  if (id.length <= 18) return id;
  const [kind = '', core = '', index] = id.split('_');
  return `${kind}_…${core.slice(-5)}${index === undefined ? '' : `_${index}`}`;
}
