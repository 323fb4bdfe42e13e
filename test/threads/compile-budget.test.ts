import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { CompileBudget } from '../../src/threads/compile-budget.ts';

/** What V8 from Node 22 on has no flag for is left alone. */
const HAS_FLAG = Number.parseInt(process.versions.node, 10) < 22;
const EARLIER = '--interrupt-budget=5000';
const USUAL = '--interrupt-budget=67584';

function started(t: TestContext): { budget: CompileBudget; isSet(...flags: string[]): void } {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const set: string[] = [];
  const budget = new CompileBudget((flag) => set.push(flag));
  budget.started();
  return { budget, isSet: (...flags) => assert.deepEqual(set, HAS_FLAG ? flags : []) };
}

function singles(budget: CompileBudget, count: number): void {
  for (let i = 0; i < count; i++) budget.single();
}

test('compiles earlier from ten seconds after the start on, until there were 24,000 single tasks', (t) => {
  const { budget, isSet } = started(t);
  t.mock.timers.tick(9_999);
  isSet();
  t.mock.timers.tick(1);
  isSet(EARLIER);
  singles(budget, 23_999);
  isSet(EARLIER);
  singles(budget, 30_000);
  isSet(EARLIER, USUAL);
});

test('or 150,000 of batches', (t) => {
  const { budget, isSet } = started(t);
  t.mock.timers.tick(10_000);
  for (let i = 0; i < 149; i++) budget.batched(1_000);
  budget.batched(999);
  isSet(EARLIER);
  budget.batched(500);
  isSet(EARLIER, USUAL);
  budget.batched(150_000);
  isSet(EARLIER, USUAL);
});

test('begins again with the first task of the other kind', (t) => {
  const { budget, isSet } = started(t);
  t.mock.timers.tick(10_000);
  budget.batched(150_000);
  // Many at once are enough by themselves.
  isSet(EARLIER, USUAL);
  singles(budget, 23_999);
  isSet(EARLIER, USUAL, EARLIER);
  singles(budget, 1);
  isSet(EARLIER, USUAL, EARLIER, USUAL);
});

test('goes on while one of both kinds is not done often enough', (t) => {
  const { budget, isSet } = started(t);
  t.mock.timers.tick(10_000);
  budget.single();
  budget.batched(149_999);
  singles(budget, 23_999);
  isSet(EARLIER);
  budget.batched(1);
  isSet(EARLIER, USUAL);
});

test('who has done as much in the first ten seconds does not begin', (t) => {
  const { budget, isSet } = started(t);
  budget.batched(150_000);
  t.mock.timers.tick(60_000);
  isSet();
});
