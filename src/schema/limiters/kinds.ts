// The kinds of limiter: one line each. Schemas, letters, docs and the checks of a configuration are made from this table.
import { BUCKET } from './bucket.ts';
import { CONCURRENT } from './concurrent.ts';
import type { LimiterKind } from './kind.ts';
import { LEAKY } from './leaky.ts';
import { POINTS } from './points.ts';
import { WINDOW } from './window.ts';

export const LIMITER_KINDS = {
  concurrent: CONCURRENT,
  bucket: BUCKET,
  window: WINDOW,
  leaky: LEAKY,
  points: POINTS,
} as const satisfies Record<string, LimiterKind>;

export type LimiterType = keyof typeof LIMITER_KINDS;
export const LIMITER_TYPES = Object.keys(LIMITER_KINDS) as readonly LimiterType[];

/** Stands for the kind in entries of work. */
export function letterOf(type: LimiterType): string {
  return LIMITER_KINDS[type].letter;
}

/** The most that a task may cost, by a configuration that was checked; null where all tasks cost one unit. */
export function costMax(type: LimiterType, config: Readonly<Record<string, number>>): number | null {
  const { cost_max }: LimiterKind = LIMITER_KINDS[type];
  return cost_max === undefined ? null : (config[cost_max] ?? null);
}
