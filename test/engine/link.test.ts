// The network between one engine and Redis is cut again and again, or slow, while another engine goes on. Where it is away for
// long is row 9 of the fault matrix.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { api } from '../helpers/api.ts';
import { startEngine, TOKENS } from '../helpers/engine.ts';
import { callbacks } from '../helpers/metrics.ts';
import { type FaultProxy, startProxy } from '../helpers/proxy.ts';
import { startReceiver } from '../helpers/receiver.ts';
import { startRedis, until } from '../helpers/redis.ts';
import { allEnded, audit, createLoad } from './load.ts';
import { freshPath } from './stage.ts';

/** With the holder silence that users have: a busy machine takes its time to connect again, and may be cut off anew meanwhile. */
const ENV = { SLUICE_CALLBACK_THREADS: '1', SLUICE_SWEEP_INTERVAL: '1s' };
const ENDED_MS_MAX = 30_000;
const BACK_MS_MAX = 10_000;

const redis = await startRedis();
const proxy = await startProxy({ path: redis.path });
const receiver = await startReceiver();
const [far, near] = await Promise.all([
  startEngine({ redis_url: `redis://127.0.0.1:${proxy.port}`, env: ENV }),
  startEngine({ redis_url: `unix://${redis.path}`, env: ENV }),
]);
const client = api(near, TOKENS.acme);

const FAULTS: [string, (proxy: FaultProxy) => void][] = [
  ['cut', (faulty) => faulty.cut()],
  ['reset', (faulty) => faulty.reset()],
  ['slow', (faulty) => faulty.delay(50)],
];

/** Waits until the engine behind the proxy works. */
async function takesPart(): Promise<void> {
  const before = await callbacks(far);
  const some = async (): Promise<boolean> => {
    await allEnded(client, await createLoad(client, receiver, 16, 5), ENDED_MS_MAX);
    return (await callbacks(far)) > before;
  };
  await until(some, BACK_MS_MAX, 'the engine behind the proxy to take part');
}

for (const [name, begin] of FAULTS) {
  test(`links that are ${name} again and again: nothing is lost, and nothing is even called twice`, async () => {
    await takesPart();
    const path = freshPath();
    receiver.at(path, { delay_ms: 20 });
    const load = await createLoad(client, receiver, 20, 200, path);
    for (const heard of [400, 1_200, 2_000, 2_800]) {
      await receiver.heard(path, heard);
      begin(proxy);
    }
    await allEnded(client, load, ENDED_MS_MAX);
    proxy.heal();
    assert.equal((await audit(client, receiver, load)).repeated_calls, 0);
  });
}
