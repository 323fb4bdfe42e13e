// Medians and percentiles of what was measured.

/** Nearest rank; `share` 0.5 is the median. NaN of nothing. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const rank = Math.ceil(share * sorted.length) - 1;
  return sorted[Math.min(Math.max(rank, 0), sorted.length - 1)] ?? Number.NaN;
}

export function median(values: readonly number[]): number {
  return percentile(values, 0.5);
}

/** The same over one field of each repeat. */
export function medianOf<T>(repeats: readonly T[], field: (repeat: T) => number): number {
  return median(repeats.map(field));
}

/** To `digits` significant ones, so that a recorded figure claims no more than it knows. */
export function rounded(value: number, digits = 4): number {
  return Number.isFinite(value) ? Number(value.toPrecision(digits)) : value;
}
