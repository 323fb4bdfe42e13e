// WAIT with group commit, on a real master with a real replica, and on a Cluster.
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { createLog } from '../../src/base/log.ts';
import { openStore, type Store } from '../../src/store/connect.ts';
import { type Durability, type DurabilityMode, openDurability } from '../../src/store/durability.ts';
import { isUnavailable, NotReplicated } from '../../src/store/errors.ts';
import { keys } from '../../src/store/keys.ts';
import { preparePartitions } from '../../src/store/partition.ts';
import { startCluster } from '../helpers/cluster.ts';
import { until } from '../helpers/redis.ts';
import { startReplica, startTcpRedis } from '../helpers/tcp-redis.ts';

const log = createLog({ level: 'silent' });
const PARTITIONS = 16;

const undo: (() => unknown)[] = [];
afterEach(async () => {
  for (const each of undo.splice(0).reverse()) await each();
});

test('with a replica that answers, what was written is confirmed and is there', async () => {
  const master = await startTcpRedis();
  const replica = await startReplica(master);
  const { store, durability } = await open(`redis://127.0.0.1:${master.port}`, 'replicated');
  await store.client.set('work', 'accepted');
  await until(() => confirms(durability), 10_000, 'the write to be confirmed');
  assert.equal(await replica.redis.get('work'), 'accepted');
});

test('a thousand requests at once share a few WAITs', async () => {
  const master = await startTcpRedis();
  await startReplica(master);
  const { durability } = await open(`redis://127.0.0.1:${master.port}`, 'strict');
  await until(() => confirms(durability), 10_000, 'the replica to follow');
  let before = 0;
  // On a busy machine the replica may be late; then none is confirmed, and all ask again.
  const all = async (): Promise<boolean> => {
    before = await calls(master.redis, 'wait');
    return (await Promise.all(Array.from({ length: 1_000 }, (_, i) => durability.confirm(i % PARTITIONS).catch(() => false)))).every(
      Boolean,
    );
  };
  await until(all, 10_000, 'a thousand confirmed at once');
  assert.ok((await calls(master.redis, 'wait')) - before <= 2);
});

for (const mode of ['replicated', 'strict'] as const) {
  test(`${mode}: a replica that is silent is waited for a quarter of a second, then it is an error`, async () => {
    const master = await startTcpRedis();
    const replica = await startReplica(master);
    const { durability } = await open(`redis://127.0.0.1:${master.port}`, mode);
    await until(() => confirms(durability), 10_000, 'the replica to follow');
    replica.freeze();
    const began_ms = performance.now();
    await assert.rejects(durability.confirm(0), (error) => error instanceof NotReplicated && isUnavailable(error));
    const took_ms = performance.now() - began_ms;
    assert.ok(took_ms >= 240, `${took_ms} ms`);
    replica.thaw();
    await until(() => confirms(durability), 10_000, 'the replica to be back');
  });
}

test('without a replica `replicated` goes on and says so, `strict` refuses; neither waits', async () => {
  const master = await startTcpRedis();
  const url = `redis://127.0.0.1:${master.port}`;
  const replicated = (await open(url, 'replicated')).durability;
  const strict = (await open(url, 'strict')).durability;
  assert.equal(await replicated.confirm(0), false);
  await assert.rejects(strict.confirm(0), NotReplicated);
  const waits = await calls(master.redis, 'wait');
  for (let i = 0; i < 20; i++) {
    assert.equal(await replicated.confirm(i % PARTITIONS), false);
    await assert.rejects(strict.confirm(0), NotReplicated);
  }
  assert.equal(await calls(master.redis, 'wait'), waits);
  await startReplica(master);
  await until(() => confirms(replicated), 3_000, 'the new replica to be seen');
  await until(() => confirms(strict), 3_000, 'the new replica to be seen');
});

test('a master that dies is an error, at once', async () => {
  const master = await startTcpRedis();
  await startReplica(master);
  const { durability } = await open(`redis://127.0.0.1:${master.port}`, 'replicated');
  await until(() => confirms(durability), 10_000, 'the replica to follow');
  await master.kill();
  const began_ms = performance.now();
  await assert.rejects(durability.confirm(0), isUnavailable);
  assert.ok(performance.now() - began_ms < 1_500);
});

test('`local` asks nobody', async () => {
  const master = await startTcpRedis();
  const { durability } = await open(`redis://127.0.0.1:${master.port}`, 'local');
  assert.equal(await durability.confirm(0), true);
  assert.equal(await calls(master.redis, 'wait'), 0);
});

test('on a Cluster each partition and each home slot is confirmed by its own master, also after a failover', async () => {
  const cluster = await startCluster({ node_timeout_ms: 1_000 });
  const { durability, store } = await open(`redis+cluster://127.0.0.1:${cluster.nodes[0]?.port}`, 'replicated');
  const confirmHomes = (): Promise<boolean[]> => Promise.all(Array.from({ length: 32 }, (_, i) => durability.confirmHome(`account ${i}`)));
  const confirmAll = async (): Promise<boolean[]> => [
    ...(await Promise.all(Array.from({ length: PARTITIONS }, (_, p) => durability.confirm(p)))),
    ...(await confirmHomes()),
  ];
  assert.deepEqual(new Set(await confirmHomes()), new Set([true]));
  const marks = await Promise.all(cluster.nodes.slice(0, 3).map(({ redis }) => redis.dbsize()));
  assert.ok(
    marks.every((count) => count > 0),
    String(marks),
  );
  assert.deepEqual(new Set(await confirmAll()), new Set([true]));
  const waits = await Promise.all(cluster.nodes.slice(0, 3).map(({ redis }) => calls(redis, 'wait')));
  assert.ok(
    waits.every((count) => count > 0),
    String(waits),
  );
  const master = await cluster.masterOf(keys.partition(0));
  await master.kill();
  const degraded = async (): Promise<boolean> => {
    await store.client.hset(keys.partition(0), 'w', 1);
    return (await durability.confirm(0)) === false;
  };
  await until(() => degraded().catch(() => false), 15_000, 'the new master, which has no replica');
  await master.start();
  await cluster.ready();
  await until(async () => (await confirmAll().catch(() => [false])).every(Boolean), 15_000, 'the old master to be a replica');
});

async function open(redis_url: string, mode: DurabilityMode): Promise<{ store: Store; durability: Durability }> {
  const store = await openStore({ redis_url, data_dir: '/nonexistent', partitions: PARTITIONS, log, role: 'test' });
  undo.push(() => store.close());
  await preparePartitions(store.client, PARTITIONS);
  const durability = openDurability({ client: store.client, connection: store.connection, mode, log });
  undo.push(() => durability.close());
  return { store, durability };
}

function confirms(durability: Durability): Promise<boolean> {
  return durability.confirm(0).catch(() => false);
}

/** How often the server has run a command. */
async function calls(redis: { info(section: string): Promise<string> }, command: string): Promise<number> {
  return Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(await redis.info('commandstats'))?.[1] ?? 0);
}
