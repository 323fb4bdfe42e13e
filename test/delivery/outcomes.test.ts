import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { monotonicMs } from '../../src/base/clock.ts';
import { SETTLE_COMPANY, SETTLE_DELAY_MS, SETTLE_DELAY_MS_MAX, SETTLE_FLUSH, SETTLE_MAX } from '../../src/base/limits.ts';
import { Outcomes } from '../../src/delivery/outcomes.ts';
import type { FlightLimit, Settlement } from '../../src/store/partition.ts';

function settlement(index: number, kind: string | null = null): Settlement {
  const limit: FlightLimit | null =
    kind === null ? null : { kind, cost: 1, lane: 'lane', granted_ms: '0', first_ms: 0, life_ms: 1_000, spare: false, cools: false };
  const flight = { name: 'core,0,999', core: 'core', origin: 'origin', base: 0, limit };
  return { flight, index, verdict: 'c', delay_ms: 0, result: '' };
}

/** How long the outcomes wait from `from_ms` on, as far as it can be told from outside. */
function assertWait(outcomes: Outcomes, from_ms: number, wait_ms: number): void {
  const due_ms = outcomes.due_ms;
  assert.ok(due_ms >= from_ms + wait_ms, `${due_ms - from_ms} ms`);
  assert.ok(due_ms <= monotonicMs() + wait_ms, `${due_ms - from_ms} ms`);
}

describe('outcomes wait for company', () => {
  test('shortly where nothing else is under way, longer while something is', () => {
    let under_way = 1;
    const outcomes = new Outcomes(() => under_way);
    assert.equal(outcomes.due_ms, Number.POSITIVE_INFINITY);
    const from_ms = monotonicMs();
    assert.equal(outcomes.push(settlement(0)), true);
    assertWait(outcomes, from_ms, SETTLE_DELAY_MS);
    under_way = 3;
    assertWait(outcomes, from_ms, SETTLE_DELAY_MS_MAX);
    assert.equal(outcomes.push(settlement(1)), false);
    assert.equal(outcomes.push(settlement(2)), true, 'the last that was under way');
    assertWait(outcomes, from_ms, SETTLE_DELAY_MS);
    const { due_ms } = outcomes;
    while (monotonicMs() < due_ms);
    assert.equal(outcomes.complete, true, 'and their time has come');
    under_way = 4;
    assert.equal(outcomes.complete, false);
  });

  test('not at all where nothing else is under way and they are company enough', () => {
    const outcomes = new Outcomes(() => SETTLE_COMPANY);
    const from_ms = monotonicMs();
    for (let i = 1; i < SETTLE_COMPANY; i++) outcomes.push(settlement(i));
    assert.equal(outcomes.complete, false);
    assertWait(outcomes, from_ms, SETTLE_DELAY_MS_MAX);
    assert.equal(outcomes.push(settlement(0)), true);
    assert.deepEqual([outcomes.complete, outcomes.full], [true, false]);
    assert.equal(outcomes.takeDue(monotonicMs()).length, SETTLE_COMPANY);
  });

  test('not for long where one frees a slot for which others wait', () => {
    const outcomes = new Outcomes(() => 100);
    const from_ms = monotonicMs();
    outcomes.push(settlement(0, 'w'));
    assertWait(outcomes, from_ms, SETTLE_DELAY_MS_MAX);
    assert.equal(outcomes.push(settlement(1, 'c')), true);
    assertWait(outcomes, from_ms, SETTLE_DELAY_MS);
    outcomes.take();
    const again_ms = monotonicMs();
    outcomes.push(settlement(2));
    assertWait(outcomes, again_ms, SETTLE_DELAY_MS_MAX);
  });

  test('not at all where one is put back for later', () => {
    const outcomes = new Outcomes(() => 100);
    outcomes.push(settlement(0));
    const from_ms = monotonicMs();
    assert.equal(outcomes.push({ ...settlement(1), verdict: 'b', delay_ms: 500 }), true);
    assert.ok(outcomes.due_ms <= from_ms);
    assert.equal(outcomes.takeDue(monotonicMs()).length, 2);
    const next_ms = monotonicMs();
    outcomes.push({ ...settlement(2), verdict: 'b' });
    assertWait(outcomes, next_ms, SETTLE_DELAY_MS_MAX);
  });

  test('not at all where they are many, and those that could not be told come first', () => {
    const outcomes = new Outcomes(() => 10_000);
    for (let i = 0; i < SETTLE_MAX + 1; i++) {
      outcomes.push(settlement(i));
      assert.equal(outcomes.full, i + 1 >= SETTLE_FLUSH);
    }
    assert.ok(outcomes.due_ms <= monotonicMs());
    const taken = outcomes.take();
    assert.equal(taken.length, SETTLE_MAX);
    assert.equal(outcomes.size, 1);
    outcomes.putBack(taken);
    assert.equal(outcomes.take()[0]?.index, 0);
  });
});
