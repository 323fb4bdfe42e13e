// The rows of the table that are not in table-work.test.ts.
import { test } from 'node:test';
import { ROWS } from '../../bench/table/rows.ts';
import { assertComplete, smokeRun } from '../helpers/bench-run.ts';

const ELSEWHERE = ['end_to_end', 'flow', 'create', 'slow_receiver', 'backlog', 'fleets'];

test('the rows about waiting, single requests and rest run, and every measure of theirs is judged', async () => {
  const names = ROWS.map(({ name }) => name).filter((name) => !ELSEWHERE.includes(name));
  assertComplete(await smokeRun(names), names);
});
