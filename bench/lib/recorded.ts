// The runs in bench/results.jsonl, as those read them who make a page of them.
import type { Figures } from './bench.ts';

export interface Run {
  date: string;
  cpu: string;
  cores: number;
  smoke: boolean;
  /** Row → figures; absent in a run of bench/table.ts. */
  results?: Record<string, Figures | undefined>;
}

/** Those of full size, the oldest first. */
export function recordedRuns(text: string): Run[] {
  const runs = text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Run);
  return runs.filter(({ smoke }) => smoke === false);
}
