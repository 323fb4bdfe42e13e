// What the scripts are told of a limiter's config: a machine of lua/lib/limiter and its numbers, under the same names for all kinds.
import type { LimiterType } from '../schema/limiters/kinds.ts';

/** Whole numbers by name, checked against their kind. */
export type LimiterConfig = Readonly<Record<string, number>>;

export interface Machine {
  /** Names a file in lua/lib/limiter. */
  form: 'window' | 'aligned' | 'level' | 'slots';
  /** Units that can be in use at once, or in one interval. */
  max: number;
  /** Units that come back in each interval, evenly; 0 where they come back otherwise. */
  rate: number;
  /** 0 where nothing comes back by time. */
  interval_s: number;
  /** At least how long a slot is held for a holder that is silent; 0 where nothing is held. */
  lock_s: number;
}

const MACHINES = {
  window: ({ limit = 1, interval = 1 }) => ({ form: 'window', max: limit, rate: 0, interval_s: interval, lock_s: 0 }),
  bucket: ({ limit, capacity, refill_rate = 1, interval = 1 }) =>
    capacity === undefined
      ? { form: 'aligned', max: limit ?? 1, rate: 0, interval_s: interval, lock_s: 0 }
      : { form: 'level', max: capacity, rate: refill_rate, interval_s: interval, lock_s: 0 },
  leaky: ({ capacity = 1, drain_rate = 1, interval = 1 }) => ({
    form: 'level',
    max: capacity,
    rate: drain_rate,
    interval_s: interval,
    lock_s: 0,
  }),
  points: ({ capacity = 1, refill_rate = 1, interval = 1 }) => ({
    form: 'level',
    max: capacity,
    rate: refill_rate,
    interval_s: interval,
    lock_s: 0,
  }),
  concurrent: ({ limit = 1, lock_timeout = 0 }) => ({ form: 'slots', max: limit, rate: 0, interval_s: 0, lock_s: lock_timeout }),
} as const satisfies Record<LimiterType, (config: LimiterConfig) => Machine>;

export function machineOf(type: LimiterType, config: LimiterConfig): Machine {
  return MACHINES[type](config);
}
