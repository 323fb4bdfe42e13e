// Tasks of rate limiters under random interleavings of everything that can happen to them; limited-model.ts says what is held true.
//
// The seed is printed; LIMITED_SEED and LIMITED_PATH run a failure again, TEST_RUNS=10 makes ten times as many.
import assert from 'node:assert/strict';
import { after, type TestContext, test } from 'node:test';
import fc from 'fast-check';
import { reconciled } from '../helpers/reconciled.ts';
import { startRig, T0 } from '../helpers/rig.ts';
import { runs } from '../helpers/runs.ts';
import { Run } from './limited-model.ts';
import { step } from './limited-steps.ts';

const RUNS = runs(60);
const STEPS_MAX = 80;
const RECONCILE_EVERY = 25;

const rig = await startRig();
after(() => rig.redis.disconnect());

test('whatever happens, every task ends, and nothing is applied twice', async (t: TestContext) => {
  const seed = Number(process.env['LIMITED_SEED'] ?? Date.now() % 2 ** 31);
  t.diagnostic(`LIMITED_SEED=${seed}`);
  const steps = fc.array(step, { minLength: 10, maxLength: STEPS_MAX, size: 'max' });
  const property = fc.asyncProperty(steps, async (list) => {
    const run = new Run(rig);
    await run.begin();
    for (const [at, one] of list.entries()) {
      await run.step(one);
      // Whatever a failover took, no partition is at odds with itself.
      if (at % RECONCILE_EVERY === 0) assert.deepEqual(await reconciled(rig), {}, 'nothing is to be set right');
    }
    await run.end();
  });
  const path = process.env['LIMITED_PATH'];
  await fc.assert(property, { seed, numRuns: RUNS, includeErrorInReport: true, ...(path === undefined ? {} : { path }) });
  assert.ok(rig.now_ms > T0);
});
