// A Redis that comes back without its latest writes: what it has forgotten is done again, soon and to the end.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { api } from '../helpers/api.ts';
import { startEngine, TOKENS } from '../helpers/engine.ts';
import { monitor } from '../helpers/monitor.ts';
import { startReceiver } from '../helpers/receiver.ts';
import { until } from '../helpers/redis.ts';
import { startKillableRedis } from './killable-redis.ts';
import { allEnded, audit, completed, createLoad } from './load.ts';

const PARTITIONS = 4;
/** Far below the lease of a task (35 s), at whose end it would be called again in any case. */
const CALLED_AGAIN_MS_MAX = 20_000;

test('outcomes that Redis has forgotten are found missing, and their tasks are called again', async (t) => {
  const redis = await startKillableRedis({ keeps: 'snapshots' });
  const env = { SLUICE_PARTITIONS: String(PARTITIONS), SLUICE_SWEEP_INTERVAL: '1s', SLUICE_CALLBACK_THREADS: '1' };
  const engine = await startEngine({ redis_url: redis.url, env });
  const client = api(engine, TOKENS.acme);
  const receiver = await startReceiver();
  const path = '/forgotten';
  receiver.at(path, { hold: true });
  const load = await createLoad(client, receiver, PARTITIONS, 10, path);
  await receiver.heard(path, load.tasks);

  // Since the last claim every partition was looked through; from then on nothing happens that would have it done again.
  const looks = await watchAudits(redis.url.slice('unix://'.length));
  await until(() => looks.size === PARTITIONS && [...looks.values()].every((count) => count >= 2), 10_000, 'an audit of every partition');
  await redis.redis.save();
  receiver.release(path);
  await allEnded(client, load, 10_000);
  await redis.kill9();
  await redis.start();
  const back_ms = performance.now();
  const forgotten = async (): Promise<boolean> => (await completed(client, load).catch(() => load.tasks)) < load.tasks;
  await until(forgotten, 10_000, 'the outcomes to be gone');
  await allEnded(client, load, CALLED_AGAIN_MS_MAX);
  t.diagnostic(`done again ${Math.round(performance.now() - back_ms)} ms after Redis was back`);
  assert.equal((await audit(client, receiver, load)).repeated_calls, load.tasks);
  assert.equal(await engine.stop(), 0);
});

/** How often each partition was asked for what a holder has in flight there; grows by itself until Redis dies. */
async function watchAudits(path: string): Promise<Map<string, number>> {
  const looks = new Map<string, number>();
  await monitor(path, ({ name, key, source }) => {
    if (source === 'lua' || name !== 'zrange' || !key.includes(':active:')) return;
    looks.set(key, (looks.get(key) ?? 0) + 1);
  });
  return looks;
}
