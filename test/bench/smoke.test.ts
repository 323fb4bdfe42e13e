// The benches of `make bench`, in their small size: that they run and count right, never that anything is fast.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { runBench } from '../helpers/bench-run.ts';

interface Line {
  smoke: boolean;
  commit: string;
  node: string;
  redis: string;
  results: Record<string, Record<string, number | null>>;
}

let line: Line;

before(async () => {
  line = (await runBench('main', '--smoke', 'end_to_end', 'idle')) as Line;
});

test('a run says what it ran on', () => {
  assert.equal(line.smoke, true);
  assert.equal(line.node, process.versions.node);
  assert.match(line.redis, /^\d+\.\d+/);
  assert.notEqual(line.commit, '');
});

test('only the benches that were asked for run', () => {
  assert.deepEqual(Object.keys(line.results), ['end_to_end', 'idle']);
});

test('every task is called exactly once', () => {
  const { tasks, calls } = line.results['end_to_end'] ?? {};
  assert.equal(tasks, 5_000);
  assert.equal(calls, 5_000);
});

test('every figure is a finite number, none below zero', () => {
  for (const [bench, figures] of Object.entries(line.results)) {
    for (const [figure, value] of Object.entries(figures)) {
      // Where the system does not tell what a process used.
      if (value === null && /cpu/.test(figure) && process.platform !== 'linux') continue;
      assert.ok(typeof value === 'number' && Number.isFinite(value) && value >= 0, `${bench}.${figure} is ${value}`);
    }
  }
});
