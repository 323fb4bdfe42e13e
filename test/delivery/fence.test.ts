import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Fence } from '../../src/delivery/fence.ts';

function scene() {
  const clock = { ms: 0 };
  return { clock, fence: new Fence(100, () => clock.ms) };
}

test('what was claimed is held while answers come in time', () => {
  const { clock, fence } = scene();
  const claimed = fence.since(0);
  for (clock.ms = 100; clock.ms <= 1_000; clock.ms += 100) fence.answered(clock.ms);
  assert.equal(fence.holds(claimed), true);
});

test('without an answer in time nothing is, and what was claimed before is not either when answers come again', () => {
  const { clock, fence } = scene();
  const claimed = fence.since(0);
  clock.ms = 101;
  assert.equal(fence.holds(claimed), false);
  fence.answered(101);
  assert.equal(fence.holds(claimed), false);
  assert.equal(fence.holds(fence.since(101)), true);
});

test('an answer counts from when it was asked for', () => {
  const { clock, fence } = scene();
  const claimed = fence.since(0);
  clock.ms = 150;
  fence.answered(60);
  const later = fence.since(61);
  assert.deepEqual([fence.holds(claimed), fence.holds(later)], [false, true]);
  clock.ms = 161;
  assert.equal(fence.holds(later), false);
});

test('what an answer brings that is the first one in time after a rest is held, whenever it was claimed', () => {
  const { clock, fence } = scene();
  clock.ms = 110;
  fence.answered(95);
  assert.equal(fence.holds(fence.since(96)), true);
});
