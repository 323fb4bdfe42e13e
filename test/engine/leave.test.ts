// Engines that leave under load, while receivers take their time and others take over.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { api } from '../helpers/api.ts';
import { type Engine, startEngine, TOKENS } from '../helpers/engine.ts';
import { callbacks } from '../helpers/metrics.ts';
import { startReceiver } from '../helpers/receiver.ts';
import { startRedis, until } from '../helpers/redis.ts';
import { allEnded, audit, createLoad, type Load } from './load.ts';

test('SIGTERM of two, one after another: the third takes over, and nothing at all is called twice', async () => {
  const redis = await startRedis();
  const receiver = await startReceiver();
  const start = (): Promise<Engine> => startEngine({ redis_url: `unix://${redis.path}` });
  const [stays, ...leaving] = await Promise.all([start(), start(), start()]);
  const client = api(stays, TOKENS.acme);
  const shared = async (): Promise<boolean> => {
    await allEnded(client, await createLoad(client, receiver, 32, 5), 10_000);
    return (await Promise.all(leaving.map(callbacks))).every((count) => count > 0);
  };
  await until(shared, 20_000, 'those that will leave to take part');
  const loads: Load[] = [];
  for (const [i, engine] of leaving.entries()) {
    const path = `/rolling-${i}`;
    receiver.at(path, { delay_ms: 200 });
    const load = await createLoad(client, receiver, 32, 400, path);
    loads.push(load);
    await receiver.heard(path, 500);
    assert.ok(receiver.to(path).length < load.tasks, 'it is over already');
    assert.equal(await engine.stop(), 0);
  }
  for (const load of loads) {
    await allEnded(client, load, 30_000);
    assert.equal((await audit(client, receiver, load)).repeated_calls, 0);
  }
});
