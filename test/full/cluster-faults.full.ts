// Two engines on a Cluster that loses masters under load: nothing that was accepted is lost, and the rest is told 503.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { keys } from '../../src/store/keys.ts';
import { freshPath, tasksFor } from '../engine/stage.ts';
import { startTraffic, told } from '../engine/traffic.ts';
import { api } from '../helpers/api.ts';
import { startCluster } from '../helpers/cluster.ts';
import { startEngine, TOKENS } from '../helpers/engine.ts';
import { startReceiver } from '../helpers/receiver.ts';
import { until } from '../helpers/redis.ts';
import { beginMove } from '../helpers/reshard.ts';

const PARTITIONS = 16;
const ENDED_MS_MAX = 60_000;
/** Far below the 5 s after which a partition is looked at without a hint. */
const BELL_MS_MAX = 1_000;

const cluster = await startCluster({ node_timeout_ms: 1_500 });
const receiver = await startReceiver();
const redis_url = cluster.url;
const engines = await Promise.all([startEngine({ redis_url }), startEngine({ redis_url })]);
const clients = engines.map((engine) => api(engine, TOKENS.acme));

/** A batch in each partition, over both engines, is called at once. */
async function allBellsRing(): Promise<boolean> {
  const path = freshPath();
  const url = receiver.url + path;
  const body = { tasks: tasksFor(url, 1) };
  // Each engine gives batches to the partitions in turn.
  const made = clients.flatMap((client) => Array.from({ length: PARTITIONS }, () => client.ask('POST', '/v1/batches', { body })));
  const accepted = (await Promise.all(made)).filter(({ status }) => status === 201).length;
  if (accepted < 2 * PARTITIONS) return false;
  return receiver.heard(path, accepted, BELL_MS_MAX).then(
    () => true,
    () => false,
  );
}

for (const round of [1, 2]) {
  test(`a master is killed under load, round ${round}`, async (t) => {
    const traffic = startTraffic(clients, receiver);
    await traffic.more(500);
    assert.equal(told(traffic.refusals), 'none');
    assert.equal(traffic.degraded, 0);
    const master = await cluster.masterOf(keys.partition(0));
    await master.kill();
    const killed_ms = performance.now();
    const replaced = async (): Promise<boolean> => (await cluster.masterOf(keys.partition(0))) !== master;
    await until(replaced, 20_000, 'the failover');
    t.diagnostic(`the replica took over ${Math.round(performance.now() - killed_ms)} ms after the kill`);
    await traffic.more(500);
    await until(allBellsRing, 20_000, 'hints from all partitions after the failover');
    await master.start();
    await cluster.ready();
    await traffic.more(500);
    await traffic.stop();
    const { repeats, tasks } = await traffic.audit(ENDED_MS_MAX);
    t.diagnostic(`${tasks} tasks, ${repeats} calls twice, ${traffic.degraded} answers without a replica`);
    t.diagnostic(`refused: ${told(traffic.refusals)}; longest time without an accepted request ${Math.round(traffic.gap_ms())} ms`);
    assert.deepEqual(
      traffic.refusals.filter(({ status }) => status !== 503),
      [],
    );
  });
}

test('hints follow the slots of all partitions to other masters', async () => {
  for (let partition = 0; partition < PARTITIONS; partition++) {
    const move = await beginMove(cluster, keys.partition(partition));
    await move.finish();
  }
  await until(allBellsRing, 20_000, 'hints from all partitions after the move');
});
