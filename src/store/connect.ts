// Opens the store: finds or starts its Redis, checks that it is fit, and settles the number of partitions.

import { Cluster } from 'ioredis';
import type { Log } from '../base/log.ts';
import { endsWithin } from '../base/timing.ts';
import { type ConnectionSpec, parseRedisUrl, type StoreKind, socketSpec } from './address.ts';
import { awaitServer, checkMasters, patiently, REACH_WAIT_MS } from './checks.ts';
import { openConnection } from './client.ts';
import { startEmbedded } from './embedded.ts';
import { StoreRefused } from './errors.ts';
import { type HintOptions, type Hints, openHints } from './hints.ts';
import { keys } from './keys.ts';
import { PartitionCount } from './partition-count.ts';
import type { RedisClient } from './script.ts';
import { PARTITIONS_MAX } from './tags.ts';

export type { ConnectionSpec, StoreKind } from './address.ts';
export { patiently } from './checks.ts';
export { openConnection } from './client.ts';
export { isUnavailable, StoreRefused } from './errors.ts';
export type { Hints } from './hints.ts';
export type { RedisClient } from './script.ts';

export interface Store {
  readonly client: RedisClient;
  readonly kind: StoreKind;
  /** As stored in Redis, and as far as this process knows: it may grow while it runs. Ids and keys depend on it. */
  readonly partitions: number;
  readonly partition_count: PartitionCount;
  /** Plain data with which a thread opens connections of its own (`joinStore`, `openConnection`). */
  readonly connection: ConnectionSpec;
  /** A new hint subscriber with its own connections; closed with the store at the latest. */
  subscriber(options?: HintOptions): Hints;
  /** Ends the connections, and the embedded Redis where this process owns it. */
  close(): Promise<void>;
}

export interface StoreOptions {
  /** null: an embedded redis-server in `data_dir`. */
  redis_url: string | null;
  data_dir: string;
  /** For the first start on an empty store; later the stored number holds. */
  partitions: number;
  log: Log;
  /** What the connection is for; part of its name in CLIENT LIST. */
  role?: string;
  /** How long an unreachable Redis or a Cluster with unserved slots is waited for. */
  wait_ms?: number;
}

/** Version of what is in Redis; raised when a running older Sluice would misread it. */
const FORMAT = 1;
const QUIT_MS = 500;

/** Throws StoreRefused, with a message for the operator, where Sluice cannot run on this Redis. */
export async function openStore(options: StoreOptions): Promise<Store> {
  const { log, role = 'main', wait_ms = REACH_WAIT_MS } = options;
  const embedded = options.redis_url === null ? await startEmbedded({ data_dir: options.data_dir, log }) : null;
  let client: RedisClient | null = null;
  try {
    const connection = embedded === null ? readUrl(options.redis_url ?? '') : socketSpec(embedded.socket);
    await awaitServer(connection, log, wait_ms);
    const opened = await openConnection(connection, { role, log }, wait_ms);
    client = opened;
    if (opened instanceof Cluster) await checkMasters(opened, wait_ms);
    const partitions = await patiently(connection, () => settlePartitions(opened, options.partitions, log), wait_ms);
    return makeStore(opened, connection, partitions, log, role, async () => embedded?.stop());
  } catch (error) {
    client?.disconnect();
    await embedded?.stop();
    throw error;
  }
}

/** A thread's own store on what the main thread opened and checked. */
export async function joinStore(options: { connection: ConnectionSpec; partitions: number; log: Log; role: string }): Promise<Store> {
  const { connection, partitions, log, role } = options;
  const client = await openConnection(connection, { role, log });
  return makeStore(client, connection, new PartitionCount(partitions), log, role, async () => {});
}

function makeStore(
  client: RedisClient,
  connection: ConnectionSpec,
  partition_count: PartitionCount,
  log: Log,
  role: string,
  stop: () => Promise<void>,
): Store {
  const opened = new Set<{ close(): void }>();
  let closed: Promise<void> | null = null;
  return {
    client,
    kind: connection.kind,
    get partitions() {
      return partition_count.now;
    },
    partition_count,
    connection,
    subscriber: (options = {}) => {
      const made = openHints(client, connection, { role, log }, options);
      opened.add(made);
      return made;
    },
    close: () => {
      closed ??= (async () => {
        for (const each of opened) each.close();
        await endClient(client);
        await stop();
      })();
      return closed;
    },
  };
}

function readUrl(url: string): ConnectionSpec {
  try {
    return parseRedisUrl(url);
  } catch (error) {
    throw new StoreRefused(`SLUICE_REDIS_URL ${error instanceof Error ? error.message : String(error)}.`);
  }
}

/** The stored number of partitions; on an empty store `configured` becomes it, whoever of several starters is first. */
async function settlePartitions(client: RedisClient, configured: number, log: Log): Promise<PartitionCount> {
  const meta = keys.meta();
  await client.hsetnx(meta, 'format', FORMAT);
  await client.hsetnx(meta, 'partitions', configured);
  const [format, stored] = await client.hmget(meta, 'format', 'partitions');
  if (Number(format) > FORMAT) {
    throw new StoreRefused(`The data in Redis was written by a newer Sluice (format ${format}, this one knows ${FORMAT}).`);
  }
  const partitions = Number(stored);
  if (!Number.isInteger(partitions) || partitions < 1 || partitions > PARTITIONS_MAX) {
    throw new StoreRefused(`Redis holds "${stored}" as the number of partitions (${meta}): it must be 1 to ${PARTITIONS_MAX}.`);
  }
  if (partitions !== configured)
    log.info({ configured, stored: partitions }, 'SLUICE_PARTITIONS differs from the stored number, which holds');
  // A store that never grew has no first number yet: it is the one it has.
  await client.hsetnx(meta, 'partitions_first', partitions);
  return new PartitionCount(partitions, Number(await client.hget(meta, 'partitions_first')));
}

/** Lets what was sent be answered, but not for long. */
async function endClient(client: RedisClient): Promise<void> {
  await endsWithin(
    client.quit().catch(() => {}),
    QUIT_MS,
  );
  client.disconnect();
}
