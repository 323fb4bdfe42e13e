// The rows of the table that are about how much is done.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { TableRun } from '../../bench/table/judge.ts';
import { assertComplete, smokeRun } from '../helpers/bench-run.ts';

const ROWS = ['end_to_end', 'flow', 'create', 'slow_receiver', 'backlog', 'fleets'];

let run: TableRun;

before(async () => {
  run = await smokeRun(ROWS);
});

test('the rows about how much is done run, and every measure of theirs is judged', () => {
  assertComplete(run, ROWS);
});

test('a run says what it ran on, beside which versions, and what was left out', () => {
  assert.equal(run.node, process.versions.node);
  for (const [name, version] of Object.entries(run.versions)) assert.match(version, /^\d+\.\d+\.\d+$/, name);
  assert.deepEqual(run.left_out, ['graphile-worker is left out of the small size: it needs PostgreSQL']);
});
