// Moves a slot from one master to another, as `redis-cli --cluster reshard` does, with a stop where half of it is gone.
import assert from 'node:assert/strict';
import type { TestCluster, TestNode } from './cluster.ts';
import { until } from './redis.ts';

/** Keys a MIGRATE; redis-cli's default. */
const KEYS_EACH = 10;
const MIGRATE_MS_MAX = 5_000;
const KNOWN_MS_MAX = 10_000;

export interface Move {
  readonly from: TestNode;
  readonly to: TestNode;
  readonly slot: number;
  /** Moves so many keys at most; how many went. */
  migrate(max: number): Promise<number>;
  /** Moves the rest and gives the slot away; resolves when every node knows. */
  finish(): Promise<void>;
}

/** Begins to move the slot of a key to another master: from here on it is served by halves. */
export async function beginMove(cluster: TestCluster, key: string): Promise<Move> {
  const from = await cluster.masterOf(key);
  const masters = await mastersOf(cluster);
  const to = masters[(masters.indexOf(from) + 1) % masters.length] ?? assert.fail();
  const slot = Number(await from.redis.cluster('KEYSLOT', key));
  await to.redis.cluster('SETSLOT', slot, 'IMPORTING', from.id);
  await from.redis.cluster('SETSLOT', slot, 'MIGRATING', to.id);
  const migrate = async (max: number): Promise<number> => {
    const names = (await from.redis.cluster('GETKEYSINSLOT', slot, max)) as string[];
    if (names.length > 0) await from.redis.call('MIGRATE', '127.0.0.1', to.port, '', 0, MIGRATE_MS_MAX, 'KEYS', ...names);
    return names.length;
  };
  return {
    from,
    to,
    slot,
    migrate,
    async finish() {
      while ((await migrate(KEYS_EACH)) > 0);
      for (const node of [to, from, ...masters.filter((one) => one !== to && one !== from)]) {
        await node.redis.cluster('SETSLOT', slot, 'NODE', to.id);
      }
      const known = async (): Promise<boolean> => {
        const views = await Promise.all(cluster.nodes.map(({ redis }) => redis.cluster('SLOTS')));
        return views.every((view) => view.some(([first, last, master]) => first <= slot && slot <= last && master?.[1] === to.port));
      };
      await until(known, KNOWN_MS_MAX, 'all to know who serves the slot');
    },
  };
}

async function mastersOf(cluster: TestCluster): Promise<TestNode[]> {
  const roles = await Promise.all(cluster.nodes.map(async ({ redis }) => redis.info('replication')));
  return cluster.nodes.filter((_, i) => /role:master/.test(roles[i] ?? ''));
}
