// Redis frozen for longer than a holder may be silent; for 10 s, with the timers of production, in test/full.
import { test } from 'node:test';
import { freezeRedis } from './frozen.ts';

const SILENCE_S = 4;

test('Redis freezes and goes on: nothing is called twice, and nobody is taken for dead', async (t) => {
  const env = { SLUICE_HOLDER_SILENCE: `${SILENCE_S}s`, SLUICE_SWEEP_INTERVAL: '1s', SLUICE_CALLBACK_THREADS: '1' };
  t.diagnostic(await freezeRedis(SILENCE_S * 1_000 + 1_500, env));
});
