// How a limiter is used: now, in the last minute, by the minute and by the day.
import { partitionOf } from '../base/id.ts';
import { keys } from './keys.ts';
import type { RedisClient } from './script.ts';
import { limiterUsage } from './scripts.gen.ts';

const MINUTES_SHOWN = 60;
const DAYS_SHOWN = 30;
const SECOND_MS = 1_000;
const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;

/** Counts of tasks, but for `available`, which is in units. */
export interface Usage {
  queued: number;
  /** Slots in use; 0 for kinds that do not follow their tasks. */
  running: number;
  granted_last_minute: number;
  /** Those that could not start when they came, and had to wait. */
  throttled_last_minute: number;
  /** Units that could be granted now; null where nothing limits, after a deletion. */
  available: number | null;
  /** When a unit is free again; null where one is free, or where no time is known. */
  next_available_ms: number | null;
  /** By the minute, oldest first, 60 of them. */
  history: { at_ms: number; granted: number; queued_max: number }[];
  /** By the day (UTC), oldest first, 30 of them. */
  days: { date: string; granted: number; throttled: number; expired: number }[];
}

/** Also of a deleted limiter, for 30 days; null where the account has none. Changes nothing. */
export async function readUsage(client: RedisClient, account_id: string, core: string, now_us?: number): Promise<Usage | null> {
  const reply = await limiterUsage.call(client, { meta: keys.partition(partitionOf(core)) }, { core, account: account_id, now_us });
  if (reply.length === 0) return null;
  const [now_ms, queued, running, available, next_ms, fields] = reply;
  const slots = new Map(pairs(fields).map(([field, text]) => [field, text.split(' ').map(Number)]));
  const seconds = lastSlots(slots, 's', Math.floor(now_ms / SECOND_MS), 60, 61);
  return {
    queued,
    running,
    granted_last_minute: sum(seconds.map((slot) => slot?.[1] ?? 0)),
    throttled_last_minute: sum(seconds.map((slot) => slot?.[2] ?? 0)),
    available: available === -1 ? null : available,
    next_available_ms: next_ms === '' ? null : Number(next_ms),
    history: history(lastSlots(slots, 'm', Math.floor(now_ms / MINUTE_MS), MINUTES_SHOWN, 61), now_ms, queued),
    days: lastSlots(slots, 'd', Math.floor(now_ms / DAY_MS), DAYS_SHOWN, 31).map((slot, i) => ({
      date: new Date((Math.floor(now_ms / DAY_MS) - DAYS_SHOWN + 1 + i) * DAY_MS).toISOString().slice(0, 10),
      granted: slot?.[1] ?? 0,
      throttled: slot?.[2] ?? 0,
      expired: slot?.[3] ?? 0,
    })),
  };
}

/** The slots (lua/lib/tally.lua) of the last `count` seconds, minutes or days up to `last`, undefined where nothing happened. */
function lastSlots(slots: ReadonlyMap<string, number[]>, unit: string, last: number, count: number, of: number): (number[] | undefined)[] {
  return Array.from({ length: count }, (_, i) => {
    const stamp = last - count + 1 + i;
    const slot = slots.get(`${unit}${stamp % of}`);
    return slot?.[0] === stamp ? slot : undefined;
  });
}

/** A minute without a slot had no change: as many waited as at the end of the last one that has. */
function history(slots: readonly (number[] | undefined)[], now_ms: number, queued: number): Usage['history'] {
  const first_ms = (Math.floor(now_ms / MINUTE_MS) - slots.length + 1) * MINUTE_MS;
  const changed = slots.some((slot) => slot !== undefined);
  let waiting = changed ? 0 : queued;
  return slots.map((slot, i) => {
    const queued_max = slot?.[3] ?? waiting;
    waiting = slot?.[4] ?? waiting;
    return { at_ms: first_ms + i * MINUTE_MS, granted: slot?.[1] ?? 0, queued_max };
  });
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, one) => total + one, 0);
}

/** What stands flat in a reply. */
function pairs<T>(flat: readonly T[]): [T, T][] {
  const list: [T, T][] = [];
  for (let i = 0; i + 1 < flat.length; i += 2) list.push([flat[i] as T, flat[i + 1] as T]);
  return list;
}
