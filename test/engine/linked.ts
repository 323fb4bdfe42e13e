// Two engines on one Redis, one of them behind a network that can be made to fail.
import assert from 'node:assert/strict';
import { api, type Client } from '../helpers/api.ts';
import { type Engine, startEngine, TOKENS } from '../helpers/engine.ts';
import { callbacks, inFlight } from '../helpers/metrics.ts';
import { type FaultProxy, startProxy } from '../helpers/proxy.ts';
import { type Receiver, startReceiver } from '../helpers/receiver.ts';
import { startRedis, until } from '../helpers/redis.ts';
import { allEnded, audit, createLoad } from './load.ts';
import { freshPath } from './stage.ts';

export interface Linked {
  proxy: FaultProxy;
  /** Behind the proxy. */
  far: Engine;
  near: Engine;
  /** Of the one that is near. */
  client: Client;
  receiver: Receiver;
  /** Waits until the engine behind the proxy works. */
  takesPart(): Promise<void>;
}

/** A silent holder is given up after these 3 s, a silent socket after 4. */
const ENV = { SLUICE_CALLBACK_THREADS: '1', SLUICE_HOLDER_SILENCE: '3s', SLUICE_SWEEP_INTERVAL: '1s' };
export const ENDED_MS_MAX = 30_000;
const BACK_MS_MAX = 10_000;

export async function startLinked(): Promise<Linked> {
  const redis = await startRedis();
  const proxy = await startProxy({ path: redis.path });
  const receiver = await startReceiver();
  const [far, near] = await Promise.all([
    startEngine({ redis_url: `redis://127.0.0.1:${proxy.port}`, env: ENV }),
    startEngine({ redis_url: `unix://${redis.path}`, env: ENV }),
  ]);
  const client = api(near, TOKENS.acme);
  const takesPart = async (): Promise<void> => {
    const before = await callbacks(far);
    const some = async (): Promise<boolean> => {
      await allEnded(client, await createLoad(client, receiver, 16, 5), ENDED_MS_MAX);
      return (await callbacks(far)) > before;
    };
    await until(some, BACK_MS_MAX, 'the engine behind the proxy to take part');
  };
  return { proxy, far, near, client, receiver, takesPart };
}

/**
 * The link breaks by `begin` with work in flight, and is healed when the other engine has done that and what came new.
 * Everything counts once, and only what was in flight there is called twice. Returns a line about it.
 */
export async function loseLink(linked: Linked, begin: (proxy: FaultProxy) => void): Promise<string> {
  const { proxy, far, near, client, receiver, takesPart } = linked;
  await takesPart();
  // An origin that was fast so far would not get as many places.
  const slow = await startReceiver();
  const path = freshPath();
  slow.at(path, { hold: true });
  const load = await createLoad(client, slow, 32, 20, path);
  await slow.heard(path, load.tasks);
  let lonely = 0;
  const counted = async (): Promise<boolean> => {
    lonely = await inFlight(far);
    return lonely + (await inFlight(near)) === load.tasks;
  };
  await until(counted, 5_000, 'the metrics of both to add up');
  assert.ok(lonely > 0 && lonely < load.tasks);

  begin(proxy);
  const began_ms = performance.now();
  slow.release(path);
  const meanwhile = await createLoad(client, receiver, 32, 20);
  await allEnded(client, meanwhile, ENDED_MS_MAX);
  const went_on_ms = performance.now() - began_ms;
  await allEnded(client, load, ENDED_MS_MAX);
  const all_ms = performance.now() - began_ms;

  proxy.heal();
  await until(async () => (await fetch(`${far.url}/readyz`)).status === 200, BACK_MS_MAX, 'the engine behind the proxy to be ready');
  await takesPart();
  const books = await audit(client, slow, load);
  assert.ok(books.repeated_calls <= lonely);
  assert.equal((await audit(client, receiver, meanwhile)).repeated_calls, 0);
  return `new work done after ${Math.round(went_on_ms)} ms, all of it after ${Math.round(all_ms)} ms; ${books.repeated_calls} of ${lonely} in flight there called twice`;
}
