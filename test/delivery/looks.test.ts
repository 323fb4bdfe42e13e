// How often a partition is looked at without a bell.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { monotonicMs } from '../../src/base/clock.ts';
import { Looks } from '../../src/delivery/looks.ts';

const SWEEP_MS = 5_000;

test('what is empty look after look is looked at after up to a minute', () => {
  const looks = new Looks(SWEEP_MS);
  const waits = Array.from({ length: 5 }, () => looks.wait_ms(false, true));
  assert.deepEqual(waits, [10_000, 20_000, 40_000, 60_000, 60_000]);
});

test('a bell brings the next look forward, and the ones after it are as close as at the start', () => {
  const looks = new Looks(SWEEP_MS);
  for (let i = 0; i < 5; i++) looks.wait_ms(false, true);
  const ahead_ms = looks.heard_ms() - monotonicMs();
  assert.ok(ahead_ms > 9_000 && ahead_ms <= 10_000, String(ahead_ms));
  assert.equal(looks.wait_ms(false, true), 10_000);
});

test('where work moves or waits nothing backs off', () => {
  const looks = new Looks(SWEEP_MS);
  for (let i = 0; i < 5; i++) assert.equal(looks.wait_ms(true, false), SWEEP_MS);
  for (let i = 0; i < 5; i++) assert.equal(looks.wait_ms(false, false), 2 * SWEEP_MS);
  assert.equal(looks.wait_ms(true, true), SWEEP_MS);
});

test('a partition that was taken over just now is looked at several times a second', () => {
  const looks = new Looks(SWEEP_MS);
  looks.owned();
  assert.equal(looks.wait_ms(false, true), 250);
});
