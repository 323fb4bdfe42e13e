// The module of a thread that takes its time to load, and says when it has.
import { workerData } from 'node:worker_threads';

const LOADS_MS = 200;
const { loaded } = workerData as { loaded: Int32Array };
for (const until_ms = performance.now() + LOADS_MS; performance.now() < until_ms; ) {
  // As a module does that has much to evaluate.
}
Atomics.store(loaded, 0, 1);

export default function run(): number {
  return Atomics.load(loaded, 0);
}
