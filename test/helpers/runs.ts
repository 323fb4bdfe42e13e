// How often a test with random input tries. `make test` tries a few, each time with others; `make test/full` many: TEST_RUNS times as many.
import assert from 'node:assert/strict';

/** `few`, or a multiple of it. */
export function runs(few: number): number {
  const times = Number(process.env['TEST_RUNS'] ?? 1);
  assert.ok(Number.isInteger(times) && times > 0, 'TEST_RUNS is a whole number');
  return few * times;
}
