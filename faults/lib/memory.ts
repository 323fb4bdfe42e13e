// What processes hold, and how it grows.
import { readFileSync } from 'node:fs';

/** Resident memory of a process; 0 where it is gone. */
export function rssMb(pid: number): number {
  try {
    return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1_024;
  } catch {
    return 0;
  }
}

export interface Sample {
  at_ms: number;
  mb: number;
}

/** MiB an hour, by least squares; 0 where there are too few. */
export function slopeMbPerH(samples: readonly Sample[]): number {
  const [first] = samples;
  if (first === undefined || samples.length < 3) return 0;
  const hours = samples.map(({ at_ms }) => (at_ms - first.at_ms) / 3_600_000);
  const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;
  const [x_mean, y_mean] = [mean(hours), mean(samples.map(({ mb }) => mb))];
  const over = samples.reduce((sum, { mb }, i) => sum + ((hours[i] ?? 0) - x_mean) * (mb - y_mean), 0);
  const under = hours.reduce((sum, x) => sum + (x - x_mean) ** 2, 0);
  return under === 0 ? 0 : over / under;
}
