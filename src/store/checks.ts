// What must be true of a Redis before Sluice starts on it. A wrong store is refused with a sentence that says what to change.
import { setTimeout as pause } from 'node:timers/promises';
import type { Cluster, Redis } from 'ioredis';
import { type Clock, monotonicMs } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import { type ConnectionSpec, describe, type StoreKind } from './address.ts';
import { createProbe, reason } from './client.ts';
import { isUnavailable, StoreRefused } from './errors.ts';

/** A machine that is being set up starts Redis and Sluice at once. */
export const REACH_WAIT_MS = 10_000;
const POLL_MS = 100;
const LOADING_LOG_MS = 5_000;
const VERSION_MIN = 7;

export type Info = ReadonlyMap<string, string>;

/**
 * Waits until the server (of a Cluster: the first seed that answers) can be used, and refuses the wrong kind of it.
 * Up to `wait_ms` for one that does not answer; as long as it takes for one that is loading its data.
 */
export async function awaitServer(spec: ConnectionSpec, log: Log, wait_ms: number, clock: Clock = monotonicMs): Promise<void> {
  const hosts = spec.kind === 'cluster' ? spec.nodes : [null];
  const give_up_ms = clock() + wait_ms;
  let last: unknown = null;
  let log_at_ms = 0;
  while (true) {
    let loading = false;
    for (const host of hosts) {
      const probe = createProbe(spec, host);
      let fault: unknown = null;
      probe.on('error', (error) => {
        fault = error;
      });
      try {
        const info = await readInfo(probe);
        loading = info.get('loading') === '1';
        refuseServer(info, spec.kind);
        if (!loading && !isReplicaOf(info, spec.kind)) return;
        if (!loading) last = new Error('it is a replica; Sluice needs the master');
        if (loading && clock() >= log_at_ms) {
          log.info({ percent: info.get('loading_loaded_perc'), eta_s: info.get('loading_eta_seconds') }, 'redis is loading its data');
          log_at_ms = clock() + LOADING_LOG_MS;
        }
      } catch (error) {
        if (error instanceof StoreRefused) throw error;
        // The call only says that the connection closed; the event says why.
        last = fault ?? error;
        refuseLogin(last, spec);
      } finally {
        probe.disconnect();
      }
      if (loading) break;
    }
    if (!loading && clock() >= give_up_ms) throw new StoreRefused(`Cannot use ${describe(spec)}: ${reason(last)}`);
    await pause(POLL_MS);
  }
}

/** Of a Cluster: every master is fit, and all slots are served, within `wait_ms`. */
export async function checkMasters(cluster: Cluster, wait_ms: number, clock: Clock = monotonicMs): Promise<void> {
  const give_up_ms = clock() + wait_ms;
  while (true) {
    let fault: string | null = null;
    for (const node of cluster.nodes('master')) {
      const name = `${node.options.host}:${node.options.port}`;
      try {
        refuseServer(await readInfo(node), 'cluster', ` (${name})`);
        const state = parseInfo(String(await node.cluster('INFO'))).get('cluster_state');
        if (state !== 'ok') fault = `${name} says cluster_state:${state ?? 'unknown'}`;
      } catch (error) {
        if (error instanceof StoreRefused) throw error;
        fault = `${name}: ${reason(error)}`;
      }
    }
    if (fault === null) return;
    if (clock() >= give_up_ms) throw new StoreRefused(`The Redis Cluster is not ready: ${fault}. All slots must be served.`);
    await pause(POLL_MS);
  }
}

/** Repeats a step of the start, which must be harmless twice, while the store cannot serve it, for up to `wait_ms`: a Cluster may fail over meanwhile. */
export async function patiently<T>(
  spec: ConnectionSpec,
  step: () => Promise<T>,
  wait_ms = REACH_WAIT_MS,
  clock: Clock = monotonicMs,
): Promise<T> {
  const give_up_ms = clock() + wait_ms;
  while (true) {
    try {
      return await step();
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      if (clock() >= give_up_ms) throw new StoreRefused(`Cannot use ${describe(spec)}: ${reason(error)}`, { cause: error });
    }
    await pause(POLL_MS);
  }
}

/** Throws StoreRefused where a server that reports `info` cannot be used as a store of this kind. */
export function refuseServer(info: Info, kind: StoreKind, where = ''): void {
  const version = info.get('redis_version') ?? '';
  // Valkey keeps redis_version at 7.2.4 for old clients; it began there, so any version of it will do.
  if (!info.has('valkey_version') && !(Number(version.split('.')[0]) >= VERSION_MIN)) {
    throw new StoreRefused(`Redis ${version || 'of an unknown version'}${where} is too old: Sluice needs Redis 7.0 or newer, or Valkey.`);
  }
  const mode = info.get('redis_mode') ?? 'standalone';
  if (mode === 'sentinel') {
    throw new StoreRefused(`This is a Sentinel${where}, not a store: use SLUICE_REDIS_URL=redis+sentinel://host:port/master-name.`);
  }
  if (kind === 'cluster' && mode !== 'cluster') {
    throw new StoreRefused(`SLUICE_REDIS_URL names a Cluster, but the server${where} is not part of one: use redis://host:port.`);
  }
  if (kind !== 'cluster' && mode === 'cluster') {
    throw new StoreRefused(`The server${where} is part of a Redis Cluster: use SLUICE_REDIS_URL=redis+cluster://host:port,….`);
  }
  const policy = info.get('maxmemory_policy');
  if (policy !== undefined && policy !== 'noeviction') {
    throw new StoreRefused(
      `maxmemory-policy is "${policy}"${where}: Redis would throw accepted tasks away. Set it to noeviction (CONFIG SET maxmemory-policy noeviction, and in redis.conf).`,
    );
  }
}

/** The fields of an INFO or CLUSTER INFO text. */
export function parseInfo(text: string): Info {
  const fields = new Map<string, string>();
  for (const line of text.split('\r\n')) {
    const colon = line.indexOf(':');
    if (colon > 0 && !line.startsWith('#')) fields.set(line.slice(0, colon), line.slice(colon + 1));
  }
  return fields;
}

async function readInfo(redis: Redis): Promise<Info> {
  return parseInfo(await redis.info());
}

function isReplicaOf(info: Info, kind: StoreKind): boolean {
  return kind !== 'cluster' && info.get('role') === 'slave';
}

function refuseLogin(error: unknown, spec: ConnectionSpec): void {
  const text = reason(error);
  if (/^(NOAUTH|WRONGPASS|NOPERM|ERR invalid password|ERR AUTH)/.test(text)) {
    throw new StoreRefused(
      `${describe(spec)} refuses the login in SLUICE_REDIS_URL, or its rights do not reach (Sluice needs INFO, CLUSTER and all data commands): ${text}`,
    );
  }
}
