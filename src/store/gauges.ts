// What an operator asks of Redis: how much waits, and how much memory is used.
import { Cluster } from 'ioredis';
import { parseInfo } from './checks.ts';
import { keys } from './keys.ts';
import type { RedisClient } from './script.ts';
import { partitionLook } from './scripts.gen.ts';

export interface Look {
  /** Fresh, retry, notification: tasks that are ready; delayed: entries. */
  waiting: readonly number[];
  /** Age of the oldest that is ready. */
  oldest_ms: number;
}

export async function lookAtPartition(client: RedisClient, partition: number): Promise<Look> {
  const [fresh, retry, notification, delayed, oldest_ms] = await partitionLook.call(client, { meta: keys.partition(partition) }, {});
  return { waiting: [fresh, retry, notification, delayed], oldest_ms };
}

/** Memory of each master. */
export async function redisMemory(client: RedisClient): Promise<{ used_bytes: number; max_bytes: number }[]> {
  const nodes = client instanceof Cluster ? client.nodes('master') : [client];
  return Promise.all(
    nodes.map(async (node) => {
      const info = parseInfo(await node.info('memory'));
      return { used_bytes: Number(info.get('used_memory')), max_bytes: Number(info.get('maxmemory') ?? 0) };
    }),
  );
}
