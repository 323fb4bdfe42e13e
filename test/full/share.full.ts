// Two and four engines share a hundred thousand tasks.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allEnded, audit, createLoad } from '../engine/load.ts';
import { api } from '../helpers/api.ts';
import { startEngine, TOKENS } from '../helpers/engine.ts';
import { callbacks } from '../helpers/metrics.ts';
import { startReceiver } from '../helpers/receiver.ts';
import { startRedis, until } from '../helpers/redis.ts';

const BATCHES = 100;
const TASKS_EACH = 1_000;
const ENDED_MS_MAX = 300_000;

for (const count of [2, 4]) {
  test(`${count} engines share a hundred thousand tasks, each called once`, async (t) => {
    const redis = await startRedis();
    const receiver = await startReceiver();
    const options = { redis_url: `unix://${redis.path}` };
    const engines = await Promise.all(Array.from({ length: count }, () => startEngine(options)));
    const [first] = engines;
    assert.ok(first !== undefined);
    const client = api(first, TOKENS.acme);
    const began_ms = performance.now();
    const load = await createLoad(client, receiver, BATCHES, TASKS_EACH);
    await allEnded(client, load, ENDED_MS_MAX);
    const took_ms = performance.now() - began_ms;
    assert.equal((await audit(client, receiver, load)).repeated_calls, 0);
    let shares: number[] = [];
    const told = async (): Promise<boolean> => {
      shares = await Promise.all(engines.map(callbacks));
      return shares.reduce((a, b) => a + b, 0) === load.tasks;
    };
    await until(told, 10_000, 'the metrics of all to add up');
    t.diagnostic(`shares ${shares.join(', ')} in ${Math.round(took_ms)} ms`);
    assert.ok(Math.min(...shares) > 0);
    assert.deepEqual(
      await Promise.all(engines.map((engine) => engine.stop())),
      engines.map(() => 0),
    );
  });
}
