// A thread that is to end while it loads: Node would take the whole process with it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLog } from '../../src/base/log.ts';
import { CallWorker } from '../../src/threads/calls.ts';

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

test('one that has loaded ends at once, and one that never was started, too', async () => {
  const loaded = new Int32Array(new SharedArrayBuffer(4));
  const worker = workerWith(loaded, false);
  await worker.start();
  assert.equal(await worker.call(null, []), 1);
  await worker.stop();
  await workerWith(loaded, true).stop();
});
