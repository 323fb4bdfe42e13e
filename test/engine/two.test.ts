// Two engines on one Redis: they share the work, and one does what the other leaves behind.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { api } from '../helpers/api.ts';
import { startEngine, TOKENS } from '../helpers/engine.ts';
import { callbacks } from '../helpers/metrics.ts';
import { startReceiver } from '../helpers/receiver.ts';
import { startRedis, until } from '../helpers/redis.ts';
import { allEnded, audit, createLoad } from './load.ts';

/** With the timers as they are in production. */
const TAKEN_OVER_MS_MAX = 15_000;
const ENV = { SLUICE_CONNECTIONS_PER_ORIGIN: '1024' };

const redis = await startRedis();
const receiver = await startReceiver();
const options = { redis_url: `unix://${redis.path}`, env: ENV };
const [one, other] = await Promise.all([startEngine(options), startEngine(options)]);
const clients = [one, other].map((engine) => api(engine, TOKENS.acme));
const [client] = clients;
assert.ok(client !== undefined);

test('twenty thousand tasks are shared by two engines, each called once', async (t) => {
  const load = await createLoad(client, receiver, 20, 1_000);
  await allEnded(client, load, 60_000);
  assert.equal((await audit(client, receiver, load)).repeated_calls, 0);
  const shares = async (): Promise<number[]> => Promise.all([callbacks(one), callbacks(other)]);
  await until(async () => (await shares()).reduce((a, b) => a + b, 0) === load.tasks, 5_000, 'the metrics of both to add up');
  const [a = 0, b = 0] = await shares();
  t.diagnostic(`shares ${a} and ${b}`);
  assert.ok(Math.min(a, b) > load.tasks / 10, `${a} and ${b}`);
});

test('kill -9 of one with work in flight: the other has done it within 15 s', async (t) => {
  const path = '/left-behind';
  // An origin that was fast so far would not get as many places.
  const slow = await startReceiver();
  slow.at(path, { hold: true });
  const load = await createLoad(client, slow, 32, 20, path);
  await slow.heard(path, load.tasks);
  await other.kill9();
  const killed_ms = performance.now();
  const gone = (): number => slow.to(path).filter((call) => call.gone).length;
  await until(() => gone() > 0, 5_000, 'the connections of the dead to close');
  slow.release(path);
  await allEnded(client, load, TAKEN_OVER_MS_MAX);
  t.diagnostic(`${gone()} of ${load.tasks} were left behind, done ${Math.round(performance.now() - killed_ms)} ms after the kill`);
  assert.equal((await audit(client, slow, load)).repeated_calls, gone());
});
