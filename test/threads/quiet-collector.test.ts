// What is young is collected when nobody has come for a while, and enough has come before.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { constants, type PerformanceEntry, PerformanceObserver } from 'node:perf_hooks';
import { beforeEach, describe, mock, test } from 'node:test';
import { promisify } from 'node:util';
import { minorCollector, QuietCollector } from '../../src/threads/quiet-collector.ts';

const run = promisify(execFile);
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

test('beside them more than 1 MB is made, so that V8 does not give the young space back', async () => {
  const code = `
    import { QuietCollector } from ${JSON.stringify(new URL('../../src/threads/quiet-collector.ts', import.meta.url).href)};
    const used = () => process.memoryUsage().heapUsed;
    let before = 0;
    const collector = new QuietCollector(() => console.log(used() - before));
    before = used();
    for (let i = 0; i < 8; i++) collector.used();
    setTimeout(() => {}, ${2 * QUIET_MS});`;
  // Nothing is collected in between: young space is of this size from the start.
  const { stdout } = await run(process.execPath, ['--min-semi-space-size=16', '--import', 'tsx', '--input-type=module', '--eval', code]);
  const bytes = Number(stdout);
  assert.ok(bytes > 1_200_000 && bytes < 3_000_000, `${stdout} bytes`);
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
