// A thread that is to end while it loads: Node would take the whole process with it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createLog } from '../../src/base/log.ts';
import { CallWorker } from '../../src/threads/calls.ts';

/** Less than a thread is waited for that does not load. */
const WAITED_MS = 4_000;
const log = createLog({ level: 'error', fields: {} });

function workerWith(loaded: Int32Array, on_demand: boolean): CallWorker<null, number> {
  const entry = new URL('./slow-to-load.ts', import.meta.url);
  return new CallWorker({ name: 'slow', entry, data: { loaded }, on_demand, waiting_max: 1, log });
}

test('one that was started a moment ago has loaded before it ends', async () => {
  const loaded = new Int32Array(new SharedArrayBuffer(4));
  const worker = workerWith(loaded, false);
  await worker.start();
  await worker.stop();
  assert.equal(Atomics.load(loaded, 0), 1);
});

test('so has one that is started by a call', async () => {
  const loaded = new Int32Array(new SharedArrayBuffer(4));
  const worker = workerWith(loaded, true);
  await worker.start();
  const call = worker.call(null, []).catch((error: unknown) => error);
  await worker.stop();
  assert.equal(Atomics.load(loaded, 0), 1);
  await call;
});

for (const on_demand of [false, true]) {
  test(`one that has loaded is not waited for: ${on_demand ? 'started by a call' : 'there from the start'}`, async () => {
    const worker = workerWith(new Int32Array(new SharedArrayBuffer(4)), on_demand);
    await worker.start();
    assert.equal(await worker.call(null, []), 1);
    const waited = new AbortController();
    const late = sleep(WAITED_MS, 'it was waited for', { signal: waited.signal }).catch(() => '');
    assert.equal(await Promise.race([worker.stop(), late]), undefined);
    waited.abort();
  });
}

test('to end twice is to end once, and one that never was started ends, too', async () => {
  const loaded = new Int32Array(new SharedArrayBuffer(4));
  const worker = workerWith(loaded, false);
  await worker.start();
  await Promise.all([worker.stop(), worker.stop()]);
  assert.equal(Atomics.load(loaded, 0), 1);
  await workerWith(loaded, true).stop();
});
