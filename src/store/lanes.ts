// The queues of limiters: letting tasks start. lua/lib/lane.lua says how a lane is kept.
import { LIMITER_KINDS, LIMITER_TYPES, type LimiterType } from '../schema/limiters/kinds.ts';
import { keys } from './keys.ts';
import type { RedisClient } from './script.ts';
import { partitionGrant } from './scripts.gen.ts';

/** The script takes no more. */
export const LANES_MAX = 16;
export const TASKS_MAX = 500;

/** What one call of `grant` did to one lane. Counts of tasks. */
export interface LaneGranted {
  lane: string;
  /** null where its limiter is not known any more. */
  type: LimiterType | null;
  granted: number;
  expired: number;
  /** Slots whose holders' leases ran out. */
  reclaimed: number;
  waiting: number;
  /** Time in the queue, pauses left out, and how many tasks waited for it. */
  waits: { wait_ms: number; tasks: number }[];
}

export interface Granted {
  /** That shard's clock. */
  now_ms: number;
  /** When the next lane is to be looked at, with a fraction; null where none is. */
  next_ms: number | null;
  /** Whether more can be done right now. */
  more: boolean;
  /** Whether messages were written: relay them. */
  wrote: boolean;
  lanes: LaneGranted[];
}

/** Grants what lanes of the partition can grant now, within the bounds. `now_us` is for tests. */
export async function grant(
  client: RedisClient,
  partition: number,
  { lanes_max = LANES_MAX, tasks_max = TASKS_MAX, now_us }: { lanes_max?: number; tasks_max?: number; now_us?: number } = {},
): Promise<Granted> {
  const reply = await partitionGrant.call(client, { meta: keys.partition(partition) }, { lanes_max, tasks_max, now_us });
  const [now_ms, next_ms, more, wrote, lanes] = reply;
  return {
    now_ms,
    next_ms: next_ms === '' ? null : Number(next_ms),
    more: more === 1,
    wrote: wrote === 1,
    lanes: lanes.map(([lane, letter, granted, expired, reclaimed, waiting, waits]) => ({
      lane,
      type: LIMITER_TYPES.find((type) => LIMITER_KINDS[type].letter === letter) ?? null,
      granted,
      expired,
      reclaimed,
      waiting,
      waits: pairs(waits).map(([wait_ms, tasks]) => ({ wait_ms, tasks })),
    })),
  };
}

/** What stands flat in a reply. */
export function pairs<T>(flat: readonly T[]): [T, T][] {
  const list: [T, T][] = [];
  for (let i = 0; i + 1 < flat.length; i += 2) list.push([flat[i] as T, flat[i + 1] as T]);
  return list;
}
