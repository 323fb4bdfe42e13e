// What is young is collected when nobody has come for a while, and enough has come before.
import assert from 'node:assert/strict';
import { constants, type PerformanceEntry, PerformanceObserver } from 'node:perf_hooks';
import { beforeEach, describe, mock, test } from 'node:test';
import { minorCollector, QuietCollector } from '../../src/threads/quiet-collector.ts';

const QUIET_MS = 30;

describe('collections while it is quiet', () => {
  let collections = 0;
  beforeEach(() => {
    collections = 0;
    mock.timers.reset();
    mock.timers.enable({ apis: ['setTimeout'] });
  });
  const open = (): QuietCollector =>
    new QuietCollector(() => {
      collections += 1;
    });
  const use = (collector: QuietCollector, tasks: number, gap_ms: number): void => {
    for (let i = 0; i < tasks; i++) {
      collector.used();
      mock.timers.tick(gap_ms);
    }
  };

  test('come after each eighth task that comes alone', () => {
    const collector = open();
    use(collector, 7, 100);
    assert.equal(collections, 0);
    use(collector, 9, 100);
    assert.equal(collections, 2);
  });

  test('do not come while more comes, and come after it', () => {
    const collector = open();
    use(collector, 1_000, 1);
    assert.equal(collections, 0);
    mock.timers.tick(2 * QUIET_MS);
    use(collector, 1, QUIET_MS);
    assert.equal(collections, 1);
  });
});

test('one of them collects the young space of its thread', async () => {
  const collect = minorCollector();
  const seen = new Promise<PerformanceEntry[]>((resolve) => {
    const observer = new PerformanceObserver((list) => {
      observer.disconnect();
      resolve(list.getEntries());
    });
    observer.observe({ entryTypes: ['gc'] });
  });
  collect();
  const kinds = (await seen).map((entry) => (entry as PerformanceEntry & { detail: { kind: number } }).detail.kind);
  assert.deepEqual(kinds, [constants.NODE_PERFORMANCE_GC_MINOR]);
});
