import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Fence } from '../../src/delivery/fence.ts';

function scene() {
  const clock = { ms: 0 };
  return { clock, fence: new Fence(100, () => clock.ms) };
}

test('what was claimed is held while answers come in time', () => {
  const { clock, fence } = scene();
  for (clock.ms = 100; clock.ms <= 1_000; clock.ms += 100) fence.answered(clock.ms);
  assert.deepEqual([fence.passed, fence.holds(50)], [false, true]);
});

test('without an answer in time nothing is, and what was claimed before is not either when answers come again', () => {
  const { clock, fence } = scene();
  fence.answered(0);
  clock.ms = 101;
  assert.deepEqual([fence.passed, fence.holds(50)], [true, false]);
  fence.answered(101);
  assert.deepEqual([fence.passed, fence.holds(50), fence.holds(101)], [false, false, true]);
});

test('an answer counts from when it was asked for', () => {
  const { clock, fence } = scene();
  fence.answered(0);
  clock.ms = 150;
  fence.answered(60);
  assert.deepEqual([fence.passed, fence.holds(60), fence.holds(110)], [false, false, true]);
  clock.ms = 161;
  assert.deepEqual([fence.passed, fence.holds(110)], [true, false]);
});

test('what is claimed after a long rest is held', () => {
  const { clock, fence } = scene();
  clock.ms = 10_000;
  fence.answered(9_990);
  assert.equal(fence.holds(9_991), true);
});
