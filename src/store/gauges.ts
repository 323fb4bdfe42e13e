// What an operator asks of Redis: how much waits, and how much memory is used.

import { Cluster } from 'ioredis';
import { LIMITER_TYPES, letterOf } from '../schema/limiters/kinds.ts';
import { parseInfo } from './checks.ts';
import { keys } from './keys.ts';
import type { RedisClient } from './script.ts';
import { partitionLook } from './scripts.gen.ts';

export interface Look {
  /** Fresh, retry, notification: tasks that are ready; delayed: entries. */
  waiting: readonly number[];
  /** Age of the oldest that is ready. */
  oldest_ms: number;
  /** Tasks that wait for limiters of each kind, in the order of LIMITER_TYPES. */
  limited: readonly number[];
  /** Tasks that wait for each of the limiters asked for. */
  lanes: readonly number[];
}

const KINDS = LIMITER_TYPES.map(letterOf).join('');

/** `lanes`: limiters of this partition, by their ids without the prefix. */
export async function lookAtPartition(client: RedisClient, partition: number, lanes: readonly string[] = []): Promise<Look> {
  const meta = keys.partition(partition);
  const reply = await partitionLook.call(client, { meta }, { kinds: KINDS, lanes: [...lanes] });
  const [fresh, retry, notification, delayed, oldest_ms, limited, waiting] = reply;
  return { waiting: [fresh, retry, notification, delayed], oldest_ms, limited, lanes: waiting };
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
