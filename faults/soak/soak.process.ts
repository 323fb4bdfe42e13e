// A soak in a process of its own: what it leaves behind ends with it. Says lines, and in the end its result, to its parent.
import { test } from 'node:test';
import { soak } from './soak.ts';

const [minutes = '2', seed = '0'] = process.argv.slice(2);

test('soak', async () => {
  const result = await soak(Number(minutes), Number(seed), (line) => process.send?.({ line })).catch((error: unknown) => ({
    broken: error instanceof Error ? (error.stack ?? error.message) : String(error),
  }));
  process.send?.({ result });
});
