// A minute of random requests.
import { test } from 'node:test';
import { FUZZ_OPTIONS, fuzz } from '../engine/fuzz/run.ts';
import { startEngine } from '../helpers/engine.ts';
import { startReceiver } from '../helpers/receiver.ts';
import { startRedis } from '../helpers/redis.ts';

const FUZZ_MS = 60_000;

test('for a minute, whatever comes, the front door answers as documented and stays what it is', async (t) => {
  const { path } = await startRedis();
  const [engine, receiver] = [await startEngine({ ...FUZZ_OPTIONS, redis_url: `unix://${path}` }), await startReceiver()];
  await fuzz(t, { engine, receiver, ms: FUZZ_MS });
});
