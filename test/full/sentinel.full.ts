// An engine on a master that three Sentinels watch: the master dies with work in flight, and the work ends.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startTraffic, told } from '../engine/traffic.ts';
import { api } from '../helpers/api.ts';
import { startEngine, TOKENS } from '../helpers/engine.ts';
import { startReceiver } from '../helpers/receiver.ts';
import { until } from '../helpers/redis.ts';
import { startReplica, startSentinels, startTcpRedis } from '../helpers/tcp-redis.ts';

test('the master dies under load: the replica takes over, and all that was accepted is done', async (t) => {
  const master = await startTcpRedis();
  const replica = await startReplica(master);
  const sentinels = await startSentinels(master, 3);
  const receiver = await startReceiver();
  const redis_url = `redis+sentinel://${sentinels.map(({ port }) => `127.0.0.1:${port}`).join(',')}/main`;
  const engine = await startEngine({ redis_url });
  const client = api(engine, TOKENS.acme);

  const held = '/held';
  receiver.at(held, { hold: true });
  const { id } = await client.create({ tasks: Array.from({ length: 100 }, () => ({ target: receiver.url + held })) });
  const traffic = startTraffic([client], receiver);
  await traffic.more(500);
  assert.equal(told(traffic.refusals), 'none');
  await receiver.heard(held, 100);
  await master.kill();
  const killed_ms = performance.now();
  await until(async () => /role:master/.test(await replica.redis.info('replication')), 30_000, 'the failover');
  t.diagnostic(`the replica took over ${Math.round(performance.now() - killed_ms)} ms after the kill`);
  receiver.release(held);
  await traffic.more(500);
  await traffic.stop();
  await client.ended(id, 'completed', 30_000);
  const { repeats, tasks } = await traffic.audit(60_000);
  t.diagnostic(`${tasks} tasks, ${repeats} calls twice, ${traffic.degraded} answers without a replica`);
  t.diagnostic(`refused: ${told(traffic.refusals)}; longest time without an accepted request ${Math.round(traffic.gap_ms())} ms`);
  assert.ok(traffic.degraded > 0, 'the new master has no replica, and the answers say so');
  assert.deepEqual(
    traffic.refusals.filter(({ status }) => status !== 503),
    [],
  );
});
