// The benches of `make bench`, in their small size: that they run and count right, never that anything is fast.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { assertFigures, runBench } from '../helpers/bench-run.ts';

interface Line {
  smoke: boolean;
  commit: string;
  node: string;
  redis: string;
  results: Record<string, Record<string, number | null>>;
}

/** Work of all kinds; what waits is in waits.test.ts, what takes a task apart in parts.test.ts. */
const ROWS = [
  ...['end_to_end', 'idle', 'notifications', 'streams', 'read', 'create', 'single', 'intake'],
  ...['limiter_grants', 'limiter_share', 'limiter_waiting', 'limiter_million'],
];

interface Repeated extends Line {
  repeated: Record<string, number>;
  ranges: Record<string, Record<string, [number, number]>>;
  cpu_s: Record<string, Record<string, number>>;
}

let line: Line;

before(async () => {
  line = (await runBench('main', '--smoke', ...ROWS)) as Line;
});

test('a run says what it ran on', () => {
  assert.equal(line.smoke, true);
  assert.equal(line.node, process.versions.node);
  assert.match(line.redis, /^\d+\.\d+/);
  assert.notEqual(line.commit, '');
});

test('only the benches that were asked for run', () => {
  assert.deepEqual(Object.keys(line.results).toSorted(), ROWS.toSorted());
});

test('every task is called exactly once', () => {
  const { tasks, calls } = line.results['end_to_end'] ?? {};
  assert.equal(tasks, 5_000);
  assert.equal(calls, 5_000);
});

test('every figure is a finite number, and none below zero but what is a difference of two', () => {
  assertFigures(line.results);
  for (const [bench, figures] of Object.entries(line.results))
    for (const [figure, value] of Object.entries(figures))
      if (!/beyond_json|^frame_cpu_us$/.test(figure)) assert.ok((value ?? 0) >= 0, `${bench}.${figure} is ${value}`);
});

test('a bench that is repeated tells the median, the least and the most, and what each process used', async () => {
  const run = (await runBench('main', '--smoke', '--repeats', '2', 'read', 'client_size')) as Repeated;
  const [least = 0, most = 0] = run.ranges['read']?.['requests_per_s'] ?? [];
  assert.ok(least > 0 && least <= most, `${least} to ${most}`);
  assert.ok([least, most].includes(run.results['read']?.['requests_per_s'] ?? 0));
  assert.equal(run.ranges['client_size'], undefined, 'once is all there is to it');
  assert.deepEqual(run.repeated, { read: 2, client_size: 1 });
  if (process.platform === 'linux') assert.ok((run.cpu_s['read']?.['main'] ?? 0) > 0 && (run.cpu_s['read']?.['redis-server'] ?? 0) > 0);
});
