// The master dies and its replica takes over, with each of the durabilities: on a Cluster, and with Sentinel. Replication is
// asynchronous, so what the master alone had acknowledged is gone.
import { keys } from '../../src/store/keys.ts';
import { startCluster } from '../../test/helpers/cluster.ts';
import { until } from '../../test/helpers/redis.ts';
import { startReplica, startSentinels, startTcpRedis } from '../../test/helpers/tcp-redis.ts';
import type { Fault, Judgement } from '../lib/fault.ts';
import type { Scene } from '../lib/scene.ts';

const HELD = 1_000;
const NODE_TIMEOUT_MS = 2_000;
const FAILOVER_MS_MAX = 30_000;
type Durability = 'local' | 'replicated' | 'strict';

interface Pair {
  redis_url: string;
  kill(): Promise<unknown>;
  /** Resolves when another serves. */
  replaced(): Promise<void>;
  /** Brings back who was killed. */
  heal(): Promise<void>;
}

async function run(scene: Scene, durability: Durability, pair: Pair): Promise<Judgement> {
  const options = { redis_url: pair.redis_url, env: { SLUICE_DURABILITY: durability } };
  await Promise.all([scene.engine(options), scene.engine(options)]);
  await scene.driver.more(scene.some);
  const held = await scene.hold(HELD);
  scene.begins();
  const killed_ms = Date.now();
  await pair.kill();
  scene.over();
  const lately = await scene.atRisk(killed_ms);
  held.release();
  await pair.replaced();
  scene.figure('failover_s', (Date.now() - killed_ms) / 1_000);
  // With `strict` nothing is accepted before the replica has a replica.
  await pair.heal();
  await scene.driver.more(scene.some);
  scene.figure('accepted_on_one_machine', scene.driver.degraded);
  const lossless = durability !== 'local';
  return scene.judge({ duplicates_max: lately, lost_max: lossless ? 0 : lately, forgets: true });
}

async function cluster(): Promise<Pair> {
  const nodes = await startCluster({ node_timeout_ms: NODE_TIMEOUT_MS });
  const master = await nodes.masterOf(keys.partition(0));
  return {
    redis_url: nodes.url,
    kill: () => master.kill(),
    replaced: () => until(async () => (await nodes.masterOf(keys.partition(0))) !== master, FAILOVER_MS_MAX, 'the replica to take over'),
    async heal() {
      await master.start();
      await nodes.ready();
    },
  };
}

async function sentinel(): Promise<Pair> {
  const master = await startTcpRedis();
  const replica = await startReplica(master);
  const sentinels = await startSentinels(master, 3);
  return {
    redis_url: `redis+sentinel://${sentinels.map(({ port }) => `127.0.0.1:${port}`).join(',')}/main`,
    kill: () => master.kill(),
    replaced: () =>
      until(async () => /role:master/.test(await replica.redis.info('replication')), FAILOVER_MS_MAX, 'the replica to take over'),
    async heal() {
      await startReplica(replica);
    },
  };
}

const kinds: [string, () => Promise<Pair>][] = [
  ['cluster', cluster],
  ['sentinel', sentinel],
];

export const failovers: readonly Fault[] = kinds.flatMap(([kind, start]) =>
  (['local', 'replicated', 'strict'] as const).map(
    (durability): Fault => ({
      row: 6,
      name: `${kind} ${durability}`,
      what: `kill -9 of a master, its replica takes over (${kind}, ${durability})`,
      ...(durability === 'local' ? { loses: true } : {}),
      run: async (scene) => run(scene, durability, await start()),
    }),
  ),
);
