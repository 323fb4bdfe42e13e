// What was granted behind a late start waits for as long as that was late, but for a few ms.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LateStarts } from '../../src/delivery/late-starts.ts';
import type { FlightLimit } from '../../src/store/claimed.ts';

const T = 1_800_000_000_000;
const granted = (after_ms: number, more: Partial<FlightLimit> = {}): FlightLimit => ({
  kind: 'l',
  cost: 1,
  lane: 'lane',
  granted_ms: String(T + after_ms),
  first_ms: 0,
  life_ms: 500,
  spare: false,
  cools: false,
  ...more,
});

test('what was granted behind a late start waits, until it is as far behind as it was granted', () => {
  const starts = new LateStarts();
  assert.equal(starts.wait_ms(granted(0), 60), 0);
  assert.equal(starts.wait_ms(granted(100), 2), 43, '60 less the 15 that it may come nearer, less the 2 that it is late itself');
  assert.equal(starts.wait_ms(granted(100), 45), 0);
});

test('nobody waits for a start that was granted later, or together with it', () => {
  const starts = new LateStarts();
  starts.wait_ms(granted(10), 60);
  assert.equal(starts.wait_ms(granted(10), 20), 0);
  assert.equal(starts.wait_ms(granted(0), 20), 0);
});

test('what was granted when the limiter had heard of it does not wait', () => {
  let now_ms = 5_000;
  const starts = new LateStarts(() => now_ms);
  starts.wait_ms(granted(0), 60);
  assert.ok(starts.wait_ms(granted(200), 0) > 0, 'it may not have heard of it for long');
  now_ms += 7;
  starts.heard([{ lane: 'lane', granted_ms: String(T), late_ms: 60, units: 1 }]);
  assert.ok(starts.wait_ms(granted(127), 0) > 0, 'granted 60 ms ahead, when it heard of it');
  assert.equal(starts.wait_ms(granted(128), 0), 0);
});

test('a limiter that does not hear of it holds up nobody for ever', () => {
  const starts = new LateStarts();
  starts.wait_ms(granted(0), 60);
  assert.ok(starts.wait_ms(granted(560), 0) > 0);
  assert.equal(starts.wait_ms(granted(561), 0), 0);
});

test('some ms late hold up nobody', () => {
  const starts = new LateStarts();
  starts.wait_ms(granted(0), 15);
  assert.equal(starts.wait_ms(granted(1), 0), 0);
});

test('other limiters go on, and those whose units come back an interval later', () => {
  const starts = new LateStarts();
  starts.wait_ms(granted(0), 60);
  assert.equal(starts.wait_ms(granted(10, { lane: 'other' }), 0), 0);
  for (const kind of ['w', 'c']) {
    starts.wait_ms(granted(0, { lane: kind, kind }), 60);
    assert.equal(starts.wait_ms(granted(10, { lane: kind, kind }), 0), 0);
  }
});

test('what is too old never starts, and nobody waits for so long that it would be', () => {
  const starts = new LateStarts();
  assert.equal(starts.wait_ms(granted(0, { life_ms: 20 }), 21), Number.POSITIVE_INFINITY);
  assert.equal(starts.wait_ms(granted(0), 60), 0);
  assert.equal(starts.wait_ms(granted(10, { life_ms: 40 }), 0), 0);
});

test('who has waited holds up the next, by less', () => {
  let now_ms = 5_000;
  const starts = new LateStarts(() => now_ms);
  starts.wait_ms(granted(0), 60);
  now_ms += 5;
  starts.heard([{ lane: 'lane', granted_ms: String(T), late_ms: 60, units: 1 }]);
  assert.equal(starts.wait_ms(granted(80), 0), 45);
  assert.equal(starts.wait_ms(granted(80), 45), 0);
  assert.equal(starts.wait_ms(granted(130), 0), 30, 'the first is too long ago, the second is not');
});

test('of a stall that makes many late the first is remembered, and of many limiters the last', () => {
  const starts = new LateStarts();
  for (let i = 0; i < 40; i++) starts.wait_ms(granted(i), 60 - i);
  assert.equal(starts.wait_ms(granted(40), 0), 45);
  for (let i = 0; i < 1_000; i++) starts.wait_ms(granted(0, { lane: `lane-${i}` }), 60);
  assert.equal(starts.wait_ms(granted(40), 0), 0);
  assert.equal(starts.wait_ms(granted(40, { lane: 'lane-999' }), 0), 45);
});

test('of one limiter the last late starts are known', () => {
  const starts = new LateStarts();
  for (let i = 0; i < 64; i++) starts.wait_ms(granted(i), 60 + i);
  assert.equal(starts.wait_ms(granted(0.5), 0), 45, 'behind the first of them');
  starts.wait_ms(granted(64), 60 + 64);
  assert.equal(starts.wait_ms(granted(0.5), 0), 0);
  assert.equal(starts.wait_ms(granted(1.5), 0), 46);
});

test('where the limiter had enough left nobody waits, but what is late so holds up those that come when it has not', () => {
  const starts = new LateStarts();
  assert.equal(starts.wait_ms(granted(0, { spare: true }), 60), 0);
  assert.equal(starts.wait_ms(granted(40, { spare: true }), 0), 0);
  assert.equal(starts.wait_ms(granted(40), 0), 45);
});
