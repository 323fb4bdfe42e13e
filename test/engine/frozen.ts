// Redis stands still and goes on: nobody was dead, so nobody may be taken for dead.
import assert from 'node:assert/strict';
import { api } from '../helpers/api.ts';
import { startEngine, TOKENS } from '../helpers/engine.ts';
import { inFlight, metric } from '../helpers/metrics.ts';
import { startReceiver } from '../helpers/receiver.ts';
import { until } from '../helpers/redis.ts';
import { startTcpRedis } from '../helpers/tcp-redis.ts';
import { allEnded, audit, createLoad } from './load.ts';

const BATCHES = 32;
/** Fewer in all than the 1,024 that one thread starts of a host that never answered: the other engine may have no partitions yet when they come. */
const TASKS_EACH = 30;
const ENDED_MS_MAX = 30_000;
/** A call to Redis is given up after 2 s; the rest is for a busy machine. */
const REFUSED_MS_MAX = 5_000;

/** Freezes the Redis of two engines that have work in flight, which is answered meanwhile; returns a line about it. */
export async function freezeRedis(freeze_ms: number, env: Record<string, string>): Promise<string> {
  const redis = await startTcpRedis();
  const receiver = await startReceiver();
  const options = { redis_url: `redis://127.0.0.1:${redis.port}`, env };
  const engines = await Promise.all([startEngine(options), startEngine(options)]);
  const [client, other] = engines.map((engine) => api(engine, TOKENS.acme));
  assert.ok(client !== undefined && other !== undefined);
  const path = '/frozen';
  receiver.at(path, { hold: true });
  const load = await createLoad(client, receiver, BATCHES, TASKS_EACH, path);
  await receiver.heard(path, load.tasks);
  const flying = async (): Promise<number> => (await Promise.all(engines.map(inFlight))).reduce((a, b) => a + b, 0);
  await until(async () => (await flying()) === load.tasks, 5_000, 'the metrics of both to add up');

  redis.freeze();
  const frozen_ms = performance.now();
  const refused = await Promise.all(
    [client, other].map((each) => each.ask('POST', '/v1/batches', { body: { tasks: [{ target: receiver.url }] } })),
  );
  assert.deepEqual(
    refused.map(({ status }) => status),
    [503, 503],
  );
  const refused_ms = performance.now() - frozen_ms;
  assert.ok(refused_ms < REFUSED_MS_MAX, `refused after ${refused_ms} ms`);
  receiver.release(path);
  // The fault itself takes its time.
  await until(() => performance.now() - frozen_ms >= freeze_ms, freeze_ms + 1_000, 'the freeze to be long enough');

  redis.thaw();
  const thawed_ms = performance.now();
  await allEnded(client, load, ENDED_MS_MAX);
  const counted_ms = performance.now() - thawed_ms;
  const next = await createLoad(client, receiver, BATCHES, TASKS_EACH);
  await allEnded(other, next, ENDED_MS_MAX);
  for (const one of [load, next]) assert.equal((await audit(client, receiver, one)).repeated_calls, 0);
  const recovered = await Promise.all(engines.map((engine) => metric(engine, 'recovered_leases_total')));
  assert.deepEqual(recovered, [0, 0]);
  assert.deepEqual(await Promise.all(engines.map((engine) => engine.stop())), [0, 0]);
  return `frozen ${Math.round(freeze_ms)} ms with ${load.tasks} in flight: refused after ${Math.round(refused_ms)} ms, all counted ${Math.round(counted_ms)} ms after the thaw`;
}
