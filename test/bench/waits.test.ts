// The benches of what is waited for, in their small size: that they run and count right.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { assertFigures, runBench } from '../helpers/bench-run.ts';

const ROWS = ['latency', 'lateness', 'schedule_lateness', 'schedule_cost', 'scale_out', 'flood', 'takeover', 'list'];

let results: Record<string, Record<string, number | null>>;

before(async () => {
  ({ results } = (await runBench('main', '--smoke', ...ROWS)) as { results: typeof results });
});

test('all of them run, and every figure is a finite number', () => {
  assert.deepEqual(Object.keys(results).toSorted(), ROWS.toSorted());
  assertFigures(results);
});

test('each task that was posted is waited for: ten a second, 500 and 2,000', () => {
  const { tasks, at_500_tasks, at_2000_tasks, p50_ms, p99_ms } = results['latency'] ?? {};
  assert.deepEqual([tasks, at_500_tasks, at_2000_tasks], [5, 250, 1_000]);
  assert.ok((p50_ms ?? 0) > 0 && (p99_ms ?? 0) >= (p50_ms ?? 0));
});
