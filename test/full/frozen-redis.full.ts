// Redis frozen for ten seconds, with the timers as they are in production.
import { test } from 'node:test';
import { freezeRedis } from '../engine/frozen.ts';

test('Redis frozen for 10 s: nothing is called twice, and nobody is taken for dead', async (t) => {
  t.diagnostic(await freezeRedis(10_000, {}));
});
