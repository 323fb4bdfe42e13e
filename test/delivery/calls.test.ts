// src/delivery/calls.ts: when offers are made, looked after and taken back.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { monotonicMs } from '../../src/base/clock.ts';
import { Calls } from '../../src/delivery/calls.ts';
import { InFlight } from '../../src/delivery/in-flight.ts';
import { encodePages } from '../../src/store/records.ts';
import { tasksOf } from '../helpers/rig.ts';

test('the next offer is made so long after one was taken, or along with a settlement, and one that stands is looked after each minute', () => {
  const calls = new Calls();
  const record = encodePages(tasksOf(1), 0)[0]?.toString('latin1');
  const take = (): void => {
    assert.equal(calls.heard(`free ${calls.number} 1 1 acme 0 0 core,0,0,1,0,30,f:acme:host\n${record}`, 'free'), true);
    calls.take(new InFlight(), () => {});
  };
  const gap_ms = 10;
  // Whole ms, of which sums are the same in whatever order they are added.
  const now_ms = Math.floor(monotonicMs());
  assert.equal(calls.turn(now_ms - 5, 'open', gap_ms, false), 'make');
  take();
  const due_ms = calls.due_ms('open', gap_ms);
  assert.ok(due_ms >= now_ms + gap_ms, 'after it was taken');
  assert.equal(calls.turn(due_ms - 1, 'open', gap_ms, false), null);
  assert.equal(calls.turn(now_ms + 4, 'open', gap_ms, true), null);
  assert.equal(calls.turn(now_ms + 5, 'open', gap_ms, true), 'make');
  take();
  const later_ms = now_ms + 10_000;
  assert.equal(calls.turn(later_ms, 'full', gap_ms, true), null);
  assert.equal(calls.turn(later_ms, 'open', gap_ms, false), 'make');
  assert.deepEqual([calls.turn(later_ms + 9_000, 'open', gap_ms, true), calls.due_ms('full', gap_ms)], [null, later_ms + 60_000]);
  assert.equal(calls.turn(later_ms + 60_000, 'full', gap_ms, false), 'check');
  calls.checked(true);
  assert.equal(calls.turn(later_ms + 60_010, 'open', gap_ms, false), null);
  assert.equal(calls.turn(later_ms + 120_000, 'open', gap_ms, false), 'check');
  calls.checked(false);
  assert.equal(calls.turn(later_ms + 120_010, 'full', gap_ms, false), 'end');
  assert.equal(calls.turn(later_ms + 120_020, 'open', gap_ms, false), 'make');
  assert.equal(calls.turn(later_ms + 120_030, 'closed', gap_ms, false), 'end');
  assert.deepEqual([calls.offered, calls.due_ms('closed', gap_ms)], [false, Number.POSITIVE_INFINITY]);
});
