// The short selection of the fault matrix, as tests: fewer tasks and shorter timers than `make faults`, the same judge.
import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import { test } from 'node:test';
import { titleOf } from '../../faults/lib/fault.ts';
import { remarks, runFault } from '../../faults/lib/outcome.ts';
import { FAULTS } from '../../faults/matrix.ts';

/** These faults, by row or by title. */
export function testFaults(...titles: readonly string[]): void {
  for (const title of titles) {
    const fault = FAULTS.find((one) => titleOf(one) === title) ?? assert.fail(`no fault ${title}`);
    test(`row ${title} of the fault matrix: ${fault.what}`, async (t) => {
      const seed = randomInt(1_000_000);
      t.diagnostic(`make faults ROW="${title}" SEED=${seed} QUICK=1 does it again`);
      const outcome = await runFault(fault, seed, true);
      if (outcome.kind !== 'judged') assert.fail(outcome.why);
      const { accepted, lost, uncalled, duplicates, double_counted, drift, recovery_s, faults } = outcome.judgement;
      t.diagnostic(`${accepted} accepted, ${duplicates} called twice, recovered after ${recovery_s} s; ${remarks(outcome.judgement)}`);
      assert.deepEqual(faults, []);
      assert.deepEqual({ lost, uncalled, double_counted, drift }, { lost: 0, uncalled: 0, double_counted: 0, drift: 0 });
    });
  }
}
