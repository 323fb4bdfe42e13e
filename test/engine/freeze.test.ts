// An engine that stands still with work in flight, and goes on when others have done that.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { api } from '../helpers/api.ts';
import { startEngine, TOKENS } from '../helpers/engine.ts';
import { callbacks, inFlight } from '../helpers/metrics.ts';
import { startReceiver } from '../helpers/receiver.ts';
import { startRedis, until } from '../helpers/redis.ts';
import { allEnded, audit, createLoad, type Load } from './load.ts';
import { freshPath } from './stage.ts';

const ENDED_MS_MAX = 30_000;
const ENV = {
  SLUICE_HOLDER_SILENCE: '4s',
  SLUICE_SWEEP_INTERVAL: '1s',
  SLUICE_CALLBACK_THREADS: '1',
  SLUICE_CONNECTIONS_PER_ORIGIN: '4096',
};
/** As in callbacks.thread.ts. */
const SNAPSHOT_MS = 1_000;

test('an engine is stopped with a thousand in flight and goes on later: each counts once, only those were called twice', async (t) => {
  const redis = await startRedis();
  const receiver = await startReceiver();
  const options = { redis_url: `unix://${redis.path}`, env: ENV };
  const [stopped, other] = await Promise.all([startEngine(options), startEngine(options)]);
  const client = api(other, TOKENS.acme);

  // Slow enough that a thousand at a time are worth it.
  const path = freshPath();
  receiver.at(path, { delay_ms: 20 });
  const load = await createLoad(client, receiver, 20, 500, path);
  await receiver.heard(path, 3_000);
  receiver.at(path, { hold: true });
  await steady(async () => receiver.held(path).length - (await inFlight(other)), 1_000, 'a thousand callbacks in flight');

  stopped.signal('SIGSTOP');
  const stopped_ms = performance.now();
  // What it wrote last may have been on its way.
  const lonely = await steady(async () => receiver.held(path).length - (await inFlight(other)), 1_000, 'all of them to be heard');
  receiver.release(path);
  await allEnded(client, load, ENDED_MS_MAX);
  t.diagnostic(`${lonely} in flight, done elsewhere ${Math.round(performance.now() - stopped_ms)} ms after the stop`);

  stopped.signal('SIGCONT');
  const before = await callbacks(stopped);
  const loads: Load[] = [];
  const again = async (): Promise<boolean> => {
    const more = await createLoad(client, receiver, 32, 5);
    loads.push(more);
    await allEnded(client, more, ENDED_MS_MAX);
    // What it tells late is among them, but counted in Redis it is not.
    return (await callbacks(stopped)) > before + lonely;
  };
  await until(again, 10_000, 'the engine that was stopped to take part again');
  assert.equal((await audit(client, receiver, load)).repeated_calls, lonely);
  for (const more of loads) assert.equal((await audit(client, receiver, more)).repeated_calls, 0);
  assert.deepEqual(await Promise.all([stopped.stop(), other.stop()]), [0, 0]);
});

/** What `look` says when it has said the same for longer than a process takes to tell what its threads have in flight; `least` or more. */
async function steady(look: () => Promise<number>, least: number, what: string): Promise<number> {
  let [said, since_ms] = [Number.NaN, 0];
  const stays = async (): Promise<boolean> => {
    const now = await look();
    if (now < least || now !== said) since_ms = performance.now();
    said = now;
    return performance.now() - since_ms > SNAPSHOT_MS + 200;
  };
  await until(stays, 20_000, what);
  return said;
}
