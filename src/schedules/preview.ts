// What a schedule is made of in time, checked and put into one: an expression, a zone, a beginning and an end. And the
// next times that people are shown.
import { type CronFields, parseCron } from './expression.ts';
import { count, next, previous } from './next.ts';
import { type Zone, zoneOf } from './zone.ts';

/** When a schedule fires; plain but for its functions. */
export interface Timing {
  readonly fields: CronFields;
  readonly zone: Zone;
  /** Both inclusive; null: none. */
  readonly start_ms: number | null;
  readonly end_ms: number | null;
}

export type TimingFault = { kind: 'invalid_cron'; message: string } | { kind: 'invalid_timezone' } | { kind: 'cron_never_fires' };

/** What does not fire within so long is taken for a mistake. */
const NEVER_MS = 5 * 366 * 86_400_000;
/** Later ticks cannot be written with four digits of the year, in UTC and in every zone. */
const LATEST_MS = Date.UTC(9999, 11, 31) - 1;
const MINUTE_MS = 60_000;

/** The timing of a schedule as it was given, or what is wrong with it. `now_ms`: from when on it must fire within 5 years. */
export function timingOf(
  given: { cron: string; timezone: string; start_ms: number | null; end_ms: number | null },
  now_ms: number,
): { ok: true; timing: Timing } | { ok: false; fault: TimingFault } {
  const parsed = parseCron(given.cron);
  if (!parsed.ok) return { ok: false, fault: { kind: 'invalid_cron', message: parsed.message } };
  const zone = zoneOf(given.timezone);
  if (zone === null) return { ok: false, fault: { kind: 'invalid_timezone' } };
  const from_ms = Math.max(now_ms, given.start_ms ?? now_ms);
  const first_ms = next(parsed.fields, zone, from_ms - 1);
  if (first_ms === null || first_ms > from_ms + NEVER_MS) return { ok: false, fault: { kind: 'cron_never_fires' } };
  return { ok: true, timing: { fields: parsed.fields, zone, start_ms: given.start_ms, end_ms: given.end_ms } };
}

/** The timing of what is stored, which was checked when it came. Null only where this machine knows its zone no more. */
export function storedTiming(given: { cron: string; timezone: string; start_ms: number | null; end_ms: number | null }): Timing | null {
  const parsed = parseCron(given.cron);
  const zone = zoneOf(given.timezone);
  return parsed.ok && zone !== null ? { fields: parsed.fields, zone, start_ms: given.start_ms, end_ms: given.end_ms } : null;
}

/** The first tick after an instant that lies within beginning and end, and before the last day of 9999; null where none does. */
export function nextTick({ fields, zone, start_ms, end_ms }: Timing, after_ms: number): number | null {
  const tick_ms = next(fields, zone, start_ms === null ? after_ms : Math.max(after_ms, start_ms - 1));
  return tick_ms === null || tick_ms > Math.min(end_ms ?? LATEST_MS, LATEST_MS) ? null : tick_ms;
}

/**
 * How long before its time the run of a tick is made: `lead_ms_max`, or three quarters of the distance to the tick before
 * it where that is less, so that at most one run is ahead of its time. The distance is that of the expression alone.
 * `before`: the tick before, where it is known.
 */
export function leadOf({ fields, zone }: Timing, tick_ms: number, lead_ms_max: number, before?: number): number {
  if (lead_ms_max === 0) return 0;
  const before_ms = before ?? previous(fields, zone, tick_ms, Math.ceil((lead_ms_max * 4) / 3));
  return before_ms === null ? lead_ms_max : Math.min(lead_ms_max, Math.floor(((tick_ms - before_ms) * 3) / 4));
}

/** How many ticks lie in [from_ms, to_ms), within beginning and end. */
export function ticksBetween({ fields, zone, start_ms, end_ms }: Timing, from_ms: number, to_ms: number): number {
  const from = start_ms === null ? from_ms : Math.max(from_ms, start_ms);
  const to = end_ms === null ? to_ms : Math.min(to_ms, end_ms + 1);
  return from < to ? count(fields, zone, from, to) : 0;
}

/** Up to `limit` ticks after an instant. */
export function upcoming(timing: Timing, after_ms: number, limit: number): number[] {
  const ticks: number[] = [];
  let at_ms = after_ms;
  while (ticks.length < limit) {
    const tick_ms = nextTick(timing, at_ms);
    if (tick_ms === null) break;
    ticks.push(tick_ms);
    at_ms = tick_ms;
  }
  return ticks;
}

/** An instant as clocks in the zone show it: `2026-03-29T03:30:00.000+02:00`. */
export function localTime({ zone }: Timing, ms: number): string {
  const offset_ms = zone.offsetAt(ms);
  const minutes = Math.abs(Math.round(offset_ms / MINUTE_MS));
  const sign = offset_ms < 0 ? '-' : '+';
  const two = (n: number): string => String(n).padStart(2, '0');
  return `${new Date(ms + offset_ms).toISOString().slice(0, -1)}${sign}${two(Math.floor(minutes / 60))}:${two(minutes % 60)}`;
}
