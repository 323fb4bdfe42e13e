// What a relayer knows of other servers' clocks, on a clock of our own and answers that take long.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DestinationClocks } from '../../src/delivery/destination-clocks.ts';
import type { Slice } from '../../src/store/outbox.ts';

/** The destination's clock is so far ahead of ours, and the source's so far behind. */
const [AHEAD_MS, BEHIND_MS] = [5_000, 300];

/** `ways_ms`: how long each question to the destination takes to get there, and its answer to come back. */
function rig(ways_ms: readonly number[]): {
  clocks: DestinationClocks;
  asked(): number;
  pass(ms: number): void;
  slice(unsure_ms?: number): Slice;
} {
  let now_ms = 1_000;
  let asked = 0;
  const ask = async (): Promise<number> => {
    const way_ms = ways_ms[asked++] ?? 0;
    now_ms += 2 * way_ms;
    return now_ms - way_ms + AHEAD_MS;
  };
  return {
    clocks: new DestinationClocks(ask, () => now_ms),
    asked: () => asked,
    pass: (ms) => {
      now_ms += ms;
    },
    slice: (unsure_ms = 0) => ({ destination: 3, messages: [], read_ms: now_ms, source_ms: now_ms - BEHIND_MS, unsure_ms }),
  };
}

test('a clock that was never heard of is asked for, and again while its answers take long', async () => {
  for (const { ways_ms, questions, doubt_ms } of [
    { ways_ms: [0.1], questions: 1, doubt_ms: 0.3 },
    { ways_ms: [30, 0.1], questions: 2, doubt_ms: 0.3 },
    { ways_ms: [30, 20, 25], questions: 3, doubt_ms: 40.2 },
  ]) {
    const { clocks, asked, slice } = rig(ways_ms);
    const { ahead_ms, unsure_ms } = await clocks.between(slice());
    assert.equal(asked(), questions);
    const least_ms = ahead_ms - unsure_ms;
    const right_ms = AHEAD_MS + BEHIND_MS;
    assert.ok(least_ms <= right_ms && right_ms <= ahead_ms, `${least_ms} to ${ahead_ms}`);
    assert.ok(unsure_ms <= doubt_ms, `${unsure_ms} ms`);
  }
});

test('who was heard is not asked, unless that was long ago', async () => {
  const { clocks, asked, pass, slice } = rig([]);
  await clocks.between(slice());
  pass(1_000);
  await clocks.between(slice());
  assert.equal(asked(), 1);
  pass(10_000);
  const { ahead_ms } = await clocks.between(slice());
  assert.equal(asked(), 2);
  assert.ok(Math.abs(ahead_ms - AHEAD_MS - BEHIND_MS) < 0.1, String(ahead_ms));
});

test('what is not known of the source’s clock is not known of how far apart they are', async () => {
  const { clocks, slice } = rig([]);
  assert.ok((await clocks.between(slice(7))).unsure_ms >= 7);
});

test('a destination that does not answer is no news of its clock', async () => {
  const clocks = new DestinationClocks(() => Promise.reject(new Error('no answer')));
  await assert.rejects(clocks.between({ destination: 3, messages: [], read_ms: 0, source_ms: 0, unsure_ms: 0 }), /no answer/);
});
