// What a relayer knows of other servers' clocks, on a clock of our own and answers that take long.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ServerClocks } from '../../src/delivery/server-clocks.ts';
import type { Slice } from '../../src/store/outbox.ts';

/** The destination's clock is so far ahead of ours, and the source's so far behind. */
const [AHEAD_MS, BEHIND_MS] = [5_000, 300];
const APART_MS = AHEAD_MS + BEHIND_MS;

interface Rig {
  clocks: ServerClocks;
  asked(): number;
  pass(ms: number): void;
  /** How far the destination is ahead of the source beyond what it is. */
  over_ms(server?: string): Promise<number>;
}

/** `ways_ms`: how long each question takes to get to the destination, and its answer to come back; the last one for all that follow. */
function rig(...ways_ms: number[]): Rig {
  let now_ms = 1_000;
  let asked = 0;
  const ask = async (): Promise<number> => {
    const way_ms = ways_ms[Math.min(asked++, ways_ms.length - 1)] ?? 0;
    now_ms += 2 * way_ms;
    return now_ms - way_ms + AHEAD_MS;
  };
  const clocks = new ServerClocks(ask, () => now_ms);
  const slice = (): Slice => ({ destination: 3, messages: [], read_ms: now_ms, source_ms: now_ms - BEHIND_MS, unsure_ms: 0 });
  return {
    clocks,
    asked: () => asked,
    pass: (ms) => {
      now_ms += ms;
    },
    over_ms: async (server = 'a') => ((await clocks.ahead_ms(slice(), server)) ?? Number.NaN) - APART_MS,
  };
}

test('a clock that was never heard of is asked for, and again while its answers come sooner', async () => {
  for (const { ways_ms, questions, over_ms_max } of [
    { ways_ms: [0.1], questions: 1, over_ms_max: 0.2 },
    { ways_ms: [30, 0.1], questions: 2, over_ms_max: 0.2 },
    { ways_ms: [30, 20, 10], questions: 3, over_ms_max: 10.2 },
    { ways_ms: [30], questions: 2, over_ms_max: 30.2 },
  ]) {
    const { asked, over_ms } = rig(...ways_ms);
    const over = await over_ms();
    assert.equal(asked(), questions);
    assert.ok(over >= 0 && over <= over_ms_max, `${over} ms over after ways of ${ways_ms}`);
  }
});

test('who was heard is not asked, unless that was a while ago; a long way there makes no questions', async () => {
  for (const way_ms of [0.1, 5, 50]) {
    const { asked, pass, over_ms } = rig(way_ms);
    await over_ms();
    const first = asked();
    for (let i = 0; i < 10; i++) {
      pass(100);
      await over_ms();
    }
    assert.equal(asked(), first, `a way of ${way_ms} ms`);
    pass(10_000);
    assert.ok((await over_ms()) <= way_ms + 0.2);
    assert.ok(asked() > first && asked() <= first + 2);
  }
});

test('servers are told apart, and what one tells with its answers is known', async () => {
  const { clocks, asked, over_ms } = rig(0);
  clocks.heard('a', 1_000 + AHEAD_MS, 1_000);
  assert.ok(Math.abs(await over_ms('a')) < 0.1);
  assert.equal(asked(), 0);
  await over_ms('b');
  assert.equal(asked(), 1);
});

test('all who want to know at once ask one question', async () => {
  const { asked, over_ms } = rig(0.1);
  await Promise.all(Array.from({ length: 20 }, () => over_ms()));
  assert.equal(asked(), 1);
});

test('a server that does not answer, or not in time, is not waited for, and nothing is known of it', async () => {
  const slice: Slice = { destination: 3, messages: [], read_ms: 0, source_ms: 0, unsure_ms: 0 };
  for (const ask of [(): Promise<number> => Promise.reject(new Error('gone')), (): Promise<number> => new Promise(() => {})])
    assert.equal(await new ServerClocks(ask).ahead_ms(slice, 'a'), null);
});
