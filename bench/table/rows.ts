// The rows of the table, in its order.
import { backlog } from './backlog.ts';
import { create } from './create.ts';
import { endToEnd, slowReceiver } from './end-to-end.ts';
import { fleets } from './fleets.ts';
import { flow } from './flow.ts';
import { posts, reads } from './http.ts';
import { idle } from './idle.ts';
import { limiters } from './limiters.ts';
import type { Row } from './row.ts';
import { latency, lateness } from './waits.ts';

export const ROWS: readonly Row[] = [
  endToEnd,
  flow,
  create,
  slowReceiver,
  lateness,
  latency,
  limiters,
  backlog,
  posts,
  reads,
  fleets,
  idle,
];

/** Those of these names, or all. */
export function chosenRows(names: readonly string[]): readonly Row[] {
  const chosen = names.length === 0 ? ROWS : ROWS.filter(({ name }) => names.includes(name));
  if (names.some((name) => !ROWS.some((row) => row.name === name))) {
    throw new Error(`The rows are: ${ROWS.map(({ name }) => name).join(', ')}.`);
  }
  return chosen;
}
