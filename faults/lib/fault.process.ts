// One fault in a process of its own: what it leaves behind ends with it. Says its outcome to its parent.
import { test } from 'node:test';
import { FAULTS } from '../matrix.ts';
import { titleOf } from './fault.ts';
import { runFault } from './outcome.ts';

const [title = '', seed = '0', quick = ''] = process.argv.slice(2);
const fault = FAULTS.find((one) => titleOf(one) === title);

// The helpers of the tests end what they start when the test has ended.
test(title, async () => {
  if (fault === undefined) throw new Error(`no fault "${title}"`);
  const outcome = await runFault(fault, Number(seed), quick === 'quick');
  process.send?.(outcome);
});
