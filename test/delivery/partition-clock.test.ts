import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PartitionClock } from '../../src/delivery/partition-clock.ts';

/** A clock of ours, and a partition's that is 1,000,000.9 ms ahead of it. */
function clocks(): {
  clock: PartitionClock;
  at(ms: number): void;
  answer(way_ms: number): void;
  shift(ms: number): void;
  off_ms(): number;
} {
  let [now_ms, ahead_ms] = [50, 1_000_000.9];
  const clock = new PartitionClock(() => now_ms);
  return {
    clock,
    at: (ms) => {
      now_ms = ms;
    },
    answer: (way_ms) => clock.heard(Math.floor(now_ms + ahead_ms - way_ms), now_ms - 2 * way_ms),
    shift: (ms) => {
      ahead_ms += ms;
    },
    off_ms: () => clock.now_ms() - (now_ms + ahead_ms),
  };
}

test('of several answers the one that was quickest to come counts, and the clock is never taken for later than it is', () => {
  const { at, answer, off_ms } = clocks();
  for (const [ms, way_ms] of [
    [50, 0.7],
    [60.4, 0.2],
    [75, 1.5],
    [90, 3],
  ] as const) {
    at(ms);
    answer(way_ms);
    assert.ok(off_ms() <= 0, 'it is later than the clock');
  }
  assert.ok(off_ms() > -0.4, `${off_ms()} ms`);
});

test('a clock that was set is followed with the next answer, in either direction', () => {
  const { at, answer, shift, off_ms } = clocks();
  answer(0.2);
  for (const by_ms of [-2_000, 500, -20]) {
    shift(by_ms);
    at(200);
    answer(0.2);
    assert.ok(Math.abs(off_ms()) < 1.3, `${off_ms()} ms after a step of ${by_ms}`);
  }
});

test('a clock that goes slower is followed', () => {
  const { at, answer, shift, off_ms } = clocks();
  for (let ms = 100; ms < 60_000; ms += 100) {
    at(ms);
    shift(-0.05);
    answer(0.2);
  }
  assert.ok(Math.abs(off_ms()) < 1.3, `${off_ms()} ms`);
});

test('a moment of the partition is named by our own clock', () => {
  const { clock, answer } = clocks();
  answer(0);
  assert.equal(clock.latest_ms(clock.now_ms() + 7), 57);
});

test('what it may be later than it is taken for is told, and never too little', () => {
  const { clock, at, answer, off_ms } = clocks();
  for (let ms = 50; ms < 500; ms += 10.3) {
    at(ms);
    answer(ms % 4);
    assert.ok(-off_ms() <= clock.unsure_ms + 1e-6, `${-off_ms()} of ${clock.unsure_ms} ms`);
  }
  assert.ok(clock.unsure_ms < 1.5, `${clock.unsure_ms} ms`);
});

test('how far it is ahead of ours is never told too little, and the less surely the longer nothing was heard', () => {
  const { clock, at, answer, off_ms } = clocks();
  assert.equal(clock.ahead_ms, Number.POSITIVE_INFINITY);
  for (const [ms, way_ms] of [
    [50, 0.7],
    [60.4, 0.2],
    [75, 1.5],
  ] as const) {
    at(ms);
    answer(way_ms);
    assert.ok(clock.ahead_ms >= 1_000_000.9, `${clock.ahead_ms} ms`);
  }
  assert.ok(clock.ahead_ms <= 1_000_000.9 + 1.5, `${clock.ahead_ms} ms`);
  const before_ms = clock.ahead_ms;
  at(10_075);
  assert.ok(clock.ahead_ms - before_ms > 9 && off_ms() <= 0);
});
