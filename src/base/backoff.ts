// How long to wait after failures in a row.

/** A number in [0, 1); `Math.random` outside tests. */
export type Dice = () => number;

export interface Backoff {
  min_ms: number;
  max_ms: number;
}

/** After the first failure `min_ms`, doubled with each further one up to `max_ms`; drawn from the upper half, so that many waiters spread. */
export function backoff_ms(failures: number, { min_ms, max_ms }: Backoff, dice: Dice): number {
  if (failures <= 0) return 0;
  // 2^40 ms is beyond any cap, and the exponent stays finite.
  const full = Math.min(max_ms, min_ms * 2 ** Math.min(failures - 1, 40));
  return full / 2 + (full / 2) * dice();
}
