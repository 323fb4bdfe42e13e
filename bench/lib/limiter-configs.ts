// A limiter of each kind that never refuses anything: what it costs is measured, not what it holds back.
import type { LimiterType } from '../../src/schema/limiters/kinds.ts';
import type { LimiterConfig } from '../../src/store/limiter-machines.ts';

export const UNITS = 1_000_000;

export const LIMITER_CONFIGS: Record<LimiterType, LimiterConfig> = {
  window: { limit: UNITS, interval: 60 },
  bucket: { limit: UNITS, interval: 60 },
  leaky: { capacity: UNITS, drain_rate: UNITS, interval: 1 },
  points: { capacity: UNITS, refill_rate: UNITS, interval: 1 },
  concurrent: { limit: 100_000 },
};
