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
