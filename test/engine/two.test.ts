// Two engines on one Redis share the work. That one does what the other leaves behind is row 1 of the fault matrix.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { api } from '../helpers/api.ts';
import { startEngine, TOKENS } from '../helpers/engine.ts';
import { callbacks } from '../helpers/metrics.ts';
import { startReceiver } from '../helpers/receiver.ts';
import { startRedis, until } from '../helpers/redis.ts';
import { allEnded, audit, createLoad } from './load.ts';

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
