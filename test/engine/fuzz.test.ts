// Some seconds of random requests; test/full has a minute of them.
import { test } from 'node:test';
import { startEngine } from '../helpers/engine.ts';
import { startReceiver } from '../helpers/receiver.ts';
import { startRedis } from '../helpers/redis.ts';
import { FUZZ_OPTIONS, fuzz } from './fuzz/run.ts';

const FUZZ_MS = 6_000;

test('whatever comes, the front door answers as documented and stays what it is', async (t) => {
  const { path } = await startRedis();
  const [engine, receiver] = [await startEngine({ ...FUZZ_OPTIONS, redis_url: `unix://${path}` }), await startReceiver()];
  await fuzz(t, { engine, receiver, ms: FUZZ_MS });
});
