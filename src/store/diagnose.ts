// What a Redis is like, for the doctor: facts only. Unlike opening the store, this refuses nothing and changes nothing.
import { monotonicMs, systemClock } from '../base/clock.ts';
import { describe, parseRedisUrl, socketSpec } from './address.ts';
import { parseInfo } from './checks.ts';
import { createProbe, reason } from './client.ts';
import { knownSocket } from './redis-server.ts';

export interface RedisFacts {
  /** `host:port`, or the socket. */
  name: string;
  version: string;
  valkey: boolean;
  mode: string;
  role: string;
  maxmemory_policy: string;
  maxmemory_bytes: number;
  used_bytes: number;
  /** What the system gave it, over what it uses. */
  fragmentation: number;
  append_only: boolean;
  append_failed: boolean;
  /** null where CONFIG is not allowed, as in hosted ones. */
  append_fsync: string | null;
  snapshot_failed: boolean;
  replicas: number;
  cluster_state: string | null;
  /** How far its clock is ahead of this machine's, and how long it took to ask. */
  clock_ahead_ms: number;
  round_trip_ms: number;
}

const ROUND_TRIPS = 20;

/** One for the server; for a Cluster one for each master. Rejects where nobody answers. `data_dir`: that of the embedded Redis. */
export async function diagnoseRedis(redis_url: string | null, data_dir: string): Promise<RedisFacts[]> {
  const socket = redis_url === null ? knownSocket(data_dir) : null;
  if (redis_url === null && socket === null) throw new Error('the embedded Redis has never run here');
  const spec = redis_url === null ? socketSpec(socket ?? '') : parseRedisUrl(redis_url);
  if (spec.kind !== 'cluster') return [await diagnose(createProbe(spec), describe(spec))];
  const hosts = await mastersOf(spec);
  return Promise.all(hosts.map((host) => diagnose(createProbe(spec, host), `${host.host}:${host.port}`)));
}

type ClusterSpec = Extract<ReturnType<typeof parseRedisUrl>, { kind: 'cluster' }>;
type Probe = ReturnType<typeof createProbe>;

/** By the first seed that answers. */
async function mastersOf(spec: ClusterSpec): Promise<{ host: string; port: number }[]> {
  let last: unknown = null;
  for (const seed of spec.nodes) {
    const probe = createProbe(spec, seed);
    try {
      const text = String(await probe.cluster('NODES'));
      const lines = text.split('\n').filter((line) => / (?:myself,)?master /.test(line) && !/\bfail\b/.test(line));
      return lines.map((line) => {
        const [, host = '', port = ''] = /^\S+ (.*):(\d+)@/.exec(line) ?? [];
        return { host: host || seed.host, port: Number(port) };
      });
    } catch (error) {
      last = error;
    } finally {
      probe.disconnect();
    }
  }
  throw new Error(reason(last));
}

async function diagnose(probe: Probe, name: string): Promise<RedisFacts> {
  let fault: unknown = null;
  probe.on('error', (error) => {
    fault = error;
  });
  try {
    const info = parseInfo(await probe.info());
    const field = (key: string): string => info.get(key) ?? '';
    const cluster = field('redis_mode') === 'cluster' ? parseInfo(String(await probe.cluster('INFO'))) : null;
    const append_fsync = await probe.config('GET', 'appendfsync').then(
      (pair) => (pair as string[])[1] ?? null,
      () => null,
    );
    return {
      name,
      version: field('valkey_version') || field('redis_version'),
      valkey: info.has('valkey_version'),
      mode: field('redis_mode') || 'standalone',
      role: field('role'),
      maxmemory_policy: field('maxmemory_policy'),
      maxmemory_bytes: Number(field('maxmemory')),
      used_bytes: Number(field('used_memory')),
      fragmentation: Number(field('mem_fragmentation_ratio')),
      append_only: field('aof_enabled') === '1',
      append_failed: field('aof_last_write_status') === 'err' || field('aof_last_bgrewrite_status') === 'err',
      append_fsync,
      snapshot_failed: field('rdb_last_bgsave_status') === 'err',
      replicas: Number(field('connected_slaves')) || 0,
      cluster_state: cluster?.get('cluster_state') ?? null,
      ...(await clockOf(probe)),
    };
  } catch (error) {
    // The call only says that the connection closed; the event says why.
    throw new Error(`${name}: ${reason(fault ?? error)}`);
  } finally {
    probe.disconnect();
  }
}

/** By the quickest of some round trips: its middle is the moment that the answer tells. */
async function clockOf(probe: Probe): Promise<{ clock_ahead_ms: number; round_trip_ms: number }> {
  let best = { clock_ahead_ms: 0, round_trip_ms: Number.POSITIVE_INFINITY };
  for (let n = 0; n < ROUND_TRIPS; n++) {
    const [began_ms, began] = [systemClock(), monotonicMs()];
    const [seconds, micros] = await probe.time();
    const round_trip_ms = monotonicMs() - began;
    const their_ms = Number(seconds) * 1_000 + Number(micros) / 1_000;
    if (round_trip_ms < best.round_trip_ms) best = { round_trip_ms, clock_ahead_ms: their_ms - (began_ms + round_trip_ms / 2) };
  }
  return best;
}
