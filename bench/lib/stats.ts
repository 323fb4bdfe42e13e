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

/** The most of these ascending times that lie within less than `span_ms` of each other. */
export function mostWithin(at_ms: readonly number[], span_ms: number): number {
  let most = 0;
  for (let from = 0, to = 0; to < at_ms.length; to++) {
    while ((at_ms[to] ?? 0) - (at_ms[from] ?? 0) >= span_ms) from++;
    most = Math.max(most, to - from + 1);
  }
  return most;
}

/** Of the straight line through these points (least squares); NaN of fewer than two. */
export function slope(points: readonly (readonly [x: number, y: number])[]): number {
  const mean = (of: (point: readonly [number, number]) => number): number =>
    points.reduce((sum, point) => sum + of(point), 0) / points.length;
  const [mean_x, mean_y] = [mean(([x]) => x), mean(([, y]) => y)];
  let [over, under] = [0, 0];
  for (const [x, y] of points) {
    over += (x - mean_x) * (y - mean_y);
    under += (x - mean_x) ** 2;
  }
  return points.length < 2 ? Number.NaN : over / under;
}
