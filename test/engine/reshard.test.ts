// Two engines on a Cluster whose slots move and whose script caches are emptied under load: nobody is told anything but
// 200, 201 and 503, and what was accepted is done and counted once.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { keys } from '../../src/store/keys.ts';
import { api } from '../helpers/api.ts';
import { startCluster } from '../helpers/cluster.ts';
import { startEngine, TOKENS } from '../helpers/engine.ts';
import { startReceiver } from '../helpers/receiver.ts';
import { beginMove } from '../helpers/reshard.ts';
import { startTraffic, told } from './traffic.ts';

const PARTITIONS = 16;
const ENDED_MS_MAX = 20_000;
/** What a `replicated` answer waits for a replica, as src/store/durability.ts has it. */
const REPLICA_WAIT_MS = 250;

const cluster = await startCluster();
const receiver = await startReceiver();
const redis_url = cluster.url;
const engines = await Promise.all([startEngine({ redis_url }), startEngine({ redis_url })]);
const clients = engines.map((engine) => api(engine, TOKENS.acme));

test('half of the partitions move to other masters', async (t) => {
  const traffic = startTraffic(clients, receiver);
  await traffic.more(300);
  assert.equal(told(traffic.refusals), 'none');
  const moves: { began_ms: number; ended_ms: number }[] = [];
  let unkeyed = 0;
  for (let partition = 0; partition < PARTITIONS; partition += 2) {
    const began_ms = performance.now();
    const move = await beginMove(cluster, keys.partition(partition));
    await move.migrate(5);
    // The others take what is new meanwhile.
    await traffic.more(100);
    await move.finish();
    moves.push({ began_ms, ended_ms: performance.now() });
    unkeyed = traffic.refusals.filter(({ what }) => what === 'POST /v1/batches').length;
  }
  await traffic.more(300);
  await traffic.stop();
  const { repeats, tasks } = await traffic.audit(ENDED_MS_MAX);
  t.diagnostic(
    `${tasks} tasks, ${repeats} calls twice; refused: ${told(traffic.refusals)}; longest gap ${Math.round(traffic.gap_ms())} ms`,
  );
  assert.deepEqual(
    traffic.refusals.filter(({ status }) => status !== 503),
    [],
  );
  const outside = traffic.refusals.filter((one) => !moves.some((move) => one.ended_ms >= move.began_ms && one.began_ms <= move.ended_ms));
  assert.deepEqual(outside, [], 'refused while nothing moved');
  assert.ok(unkeyed <= 2 * moves.length, `${unkeyed} batches without a key were refused though other partitions stand still`);
});

test('script caches that are emptied five times a second are noticed by nobody', async (t) => {
  const traffic = startTraffic(clients, receiver);
  const flush = (): void => {
    for (const { redis } of cluster.nodes) redis.script('FLUSH').catch(() => {});
  };
  const timer = setInterval(flush, 200);
  t.after(() => clearInterval(timer));
  await traffic.more(3_000);
  await traffic.stop();
  clearInterval(timer);
  const { repeats } = await traffic.audit(ENDED_MS_MAX);
  // On a machine short of processors a replica may take longer than an answer waits for it, whatever becomes of scripts.
  const late = engines.flatMap((engine) => engine.logs()).filter((line) => line.includes('a replica did not acknowledge in time'));
  const noticed = traffic.refusals.filter(
    ({ status, began_ms, ended_ms }) => status !== 503 || ended_ms - began_ms < REPLICA_WAIT_MS || late.length === 0,
  );
  assert.deepEqual(noticed, []);
  assert.equal(repeats, 0);
  assert.deepEqual(
    engines.flatMap((engine) => engine.logs()).filter((line) => line.includes('NOSCRIPT')),
    [],
  );
});
