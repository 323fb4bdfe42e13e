// When an expression fires next in a time zone: a pure function of (expression, zone, instant). Preview, execution and
// catch-up all ask it, so they always agree.
//
// Its fires are the set of instants of all matching local times (RFC 5545): a local time that happens once fires then;
// one that happens twice fires at its first, at both where the hour field names all 24; one that does not exist fires at
// the time read with the offset before the gap (02:30 → 03:30), not at all where the hour field names all 24.
//
// A day is cut into pieces between changes of the offset. In a piece local time and instants differ by a constant, so
// the first fire in it is a look-up among the times of the pattern.
import { DAY_MS, DAY_S, nextDay, nextTime, type Pattern, patternOf } from './calendar.ts';
import type { CronFields } from './expression.ts';
import type { Zone } from './zone.ts';

/** Local times of one day in [from_s, to_s) seconds, with the offset that they are read with. */
interface Piece {
  from_s: number;
  to_s: number;
  offset_ms: number;
}

/** No offset is further from UTC, and no change of one is larger than a day. */
const OFFSET_MS_MAX = 15 * 3_600_000;

/** The first fire after an instant, in ms; null where there is none within 50 years. */
export function next(fields: CronFields, zone: Zone, after_ms: number): number | null {
  const pattern = patternOf(fields);
  // Around a change of the offset a day's last fires may come after the first of the next day, and a day that was left
  // out fires with the one that follows it.
  let day = Math.floor((after_ms + zone.offsetAt(after_ms)) / DAY_MS);
  if (changesNear(zone, day - 1).length > 0) day -= 1;
  let best: number | null = null;
  for (let found = nextDay(pattern, day); found !== null; found = nextDay(pattern, found + 1)) {
    const at_ms = firstOfDay(pattern, zone, found, after_ms);
    if (at_ms !== null && (best === null || at_ms < best)) best = at_ms;
    if (best !== null && (best < found * DAY_MS - OFFSET_MS_MAX || changesNear(zone, found).length === 0)) return best;
  }
  return best;
}

/** The latest fire before an instant within `back_ms`; null where there is none. Only for what is near: it steps. */
export function previous(fields: CronFields, zone: Zone, before_ms: number, back_ms: number): number | null {
  // From ever further back until there is one, so that few are stepped over.
  let back = 1_000;
  let at_ms: number | null = null;
  while (at_ms === null) {
    const from_ms = before_ms - Math.min(back, back_ms);
    const first = next(fields, zone, from_ms - 1);
    if (first !== null && first < before_ms) at_ms = first;
    else if (back >= back_ms) return null;
    back *= 2;
  }
  for (;;) {
    const following = next(fields, zone, at_ms);
    if (following === null || following >= before_ms) return at_ms;
    at_ms = following;
  }
}

/** How many fires there are in [from_ms, to_ms). Whole days without a change of the offset are counted by multiplication. */
export function count(fields: CronFields, zone: Zone, from_ms: number, to_ms: number): number {
  const pattern = patternOf(fields);
  let total = 0;
  let at_ms = from_ms - 1;
  for (;;) {
    const fire_ms = next(fields, zone, at_ms);
    if (fire_ms === null || fire_ms >= to_ms) return total;
    const local_ms = fire_ms + zone.offsetAt(fire_ms);
    const day = Math.floor(local_ms / DAY_MS);
    const end_ms = (day + 1) * DAY_MS - zone.offsetAt(fire_ms);
    const plain = changesNear(zone, day).length === 0 && changesNear(zone, day - 1).length === 0 && changesNear(zone, day + 1).length === 0;
    const first_s = nextTime(pattern, 0);
    if (plain && end_ms <= to_ms && first_s !== null && local_ms === day * DAY_MS + first_s * 1000) {
      total += pattern.times;
      at_ms = end_ms - 1;
    } else {
      total += 1;
      at_ms = fire_ms;
    }
  }
}

/** The changes of offset that can touch local times of a day. */
function changesNear(zone: Zone, day: number): ReturnType<Zone['changes']> {
  return zone.changes(day * DAY_MS - OFFSET_MS_MAX, (day + 1) * DAY_MS + OFFSET_MS_MAX);
}

/** The first fire after an instant among those of one local day. */
function firstOfDay(pattern: Pattern, zone: Zone, day: number, after_ms: number): number | null {
  let best: number | null = null;
  for (const { from_s, to_s, offset_ms } of piecesOf(pattern, zone, day)) {
    const local_after_s = Math.floor((after_ms + offset_ms - day * DAY_MS) / 1000) + 1;
    const second = nextTime(pattern, Math.max(from_s, local_after_s));
    if (second === null || second >= to_s) continue;
    const at_ms = day * DAY_MS + second * 1000 - offset_ms;
    if (best === null || at_ms < best) best = at_ms;
  }
  return best;
}

function piecesOf({ all_hours }: Pattern, zone: Zone, day: number): Piece[] {
  const changes = changesNear(zone, day);
  if (changes.length === 0) return [{ from_s: 0, to_s: DAY_S, offset_ms: zone.offsetAt(day * DAY_MS - OFFSET_MS_MAX) }];
  const pieces: Piece[] = [];
  const add = (from_ms: number, to_ms: number, offset_ms: number): void => {
    const from_s = Math.max(0, (from_ms - day * DAY_MS) / 1000);
    const to_s = Math.min(DAY_S, (to_ms - day * DAY_MS) / 1000);
    if (from_s < to_s) pieces.push({ from_s, to_s, offset_ms });
  };
  let from_ms = Number.NEGATIVE_INFINITY;
  let offset_ms = changes[0]?.before_ms ?? 0;
  for (const { at_ms, before_ms, after_ms } of changes) {
    add(from_ms, at_ms + before_ms, before_ms);
    from_ms = at_ms + after_ms;
    if (!all_hours && after_ms > before_ms) add(at_ms + before_ms, at_ms + after_ms, before_ms);
    if (!all_hours && after_ms < before_ms) from_ms = at_ms + before_ms;
    offset_ms = after_ms;
  }
  add(from_ms, Number.POSITIVE_INFINITY, offset_ms);
  return pieces;
}
