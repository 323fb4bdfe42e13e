// What a thread makes so that V8 leaves its young space as it is: while there was work lately, and only where it has grown.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { getHeapSpaceStatistics } from 'node:v8';
import { YoungSpace, youngBytes } from '../../src/threads/young-space.ts';

const run = promisify(execFile);
const GROWN = 32 * 1_048_576;

test('for 600 seconds after its last work a thread makes garbage, and then none', () => {
  const space = new YoungSpace();
  assert.equal(space.tick(GROWN), false, 'it had no work yet');
  space.used();
  for (let second = 0; second < 300; second++) assert.equal(space.tick(GROWN), true);
  space.used();
  const made = Array.from({ length: 700 }, () => space.tick(GROWN));
  assert.equal(made.indexOf(false), 600);
  assert.ok(!made.slice(600).includes(true));
});

test('a young space that has not grown is left alone, and kept as soon as it has', () => {
  const space = new YoungSpace();
  space.used();
  assert.equal(space.tick(1_048_576), false);
  assert.equal(space.tick(GROWN), true);
});

test('each time it is more than 1 MB that V8 has made', async () => {
  const code = `
    import { YoungSpace } from ${JSON.stringify(new URL('../../src/threads/young-space.ts', import.meta.url).href)};
    const space = new YoungSpace();
    space.used();
    const before = process.memoryUsage().heapUsed;
    space.tick(${GROWN});
    console.log(process.memoryUsage().heapUsed - before);`;
  // Nothing is collected in between: young space is of this size from the start.
  const { stdout } = await run(process.execPath, ['--min-semi-space-size=16', '--import', 'tsx', '--input-type=module', '--eval', code]);
  const bytes = Number(stdout);
  assert.ok(bytes > 1_000_000 && bytes < 2_000_000, `${stdout} bytes`);
});

test('the size of the young space is what V8 says it is', () => {
  const spaces = getHeapSpaceStatistics();
  const bytes = youngBytes(spaces);
  assert.ok(bytes > 0 && bytes < spaces.reduce((sum, { space_size }) => sum + space_size, 0));
  assert.equal(youngBytes([]), 0);
});
