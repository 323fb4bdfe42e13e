// The doctor's look at Redis.
import { ConfigError, loadConfig } from '../config.ts';
import type { RedisFacts } from '../store/diagnose.ts';
import { type Finding, fault, ok, warning } from './finding.ts';
import { bytes } from './output.ts';

const VERSION_MIN = 7;
/** Leases and turns are by Redis's clock; this machine's is in tokens' ends, signatures and lists. */
const CLOCK_MS_MAX = 1_000;
/** A turn of a partition is one round trip. */
const ROUND_TRIP_MS_MAX = 5;
const MEMORY_SHARE_MAX = 0.8;
const FRAGMENTATION_MAX = 1.5;
/** Below it the ratio says nothing. */
const FRAGMENTATION_BYTES_MIN = 256 * 1_048_576;

export async function checkRedis(env: NodeJS.ProcessEnv): Promise<Finding[]> {
  let config: ReturnType<typeof loadConfig>;
  try {
    config = loadConfig(env);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return error.faults.map(({ name, message }) => fault('settings', `${name} ${message}`, 'docs/config.md lists all settings.'));
  }
  const { diagnoseRedis } = await import('../store/diagnose.ts');
  let servers: RedisFacts[];
  try {
    servers = await diagnoseRedis(config.redis_url, config.data_dir);
  } catch (error) {
    const found = error instanceof Error ? error.message : String(error);
    if (config.redis_url === null)
      return [ok('settings', 'understood'), warning('redis', found, 'Start the server once (`sluice serve`), or set SLUICE_REDIS_URL.')];
    return [
      ok('settings', 'understood'),
      fault('redis', found, 'Is SLUICE_REDIS_URL right, is Redis running, and does a firewall let you through?'),
    ];
  }
  return [ok('settings', 'understood'), ...servers.flatMap((server) => judge(server, servers.length > 1))];
}

/** What is to be said of one server. */
export function judge(redis: RedisFacts, several = false): Finding[] {
  const of = (what: string): string => (several ? `redis ${redis.name} ${what}` : `redis ${what}`);
  return [version(redis, of), policy(redis, of), memory(redis, of), ...persistence(redis, of), ...standing(redis, of), clock(redis, of)];
}

type Of = (what: string) => string;

function version({ version, valkey }: RedisFacts, of: Of): Finding {
  const found = `${valkey ? 'Valkey' : 'Redis'} ${version}`;
  if (valkey || Number(version.split('.')[0]) >= VERSION_MIN) return ok(of('version'), found);
  return fault(of('version'), found, 'Sluice needs Redis 7.0 or newer, or Valkey.');
}

function policy({ maxmemory_policy }: RedisFacts, of: Of): Finding {
  if (maxmemory_policy === 'noeviction') return ok(of('eviction'), 'noeviction');
  return fault(
    of('eviction'),
    `maxmemory-policy is ${maxmemory_policy || 'unknown'}: accepted tasks could be thrown away`,
    'CONFIG SET maxmemory-policy noeviction, and the same in redis.conf.',
  );
}

function memory({ maxmemory_bytes, used_bytes, fragmentation }: RedisFacts, of: Of): Finding {
  const check = of('memory');
  if (maxmemory_bytes === 0)
    return warning(
      check,
      `${bytes(used_bytes)} used, no maxmemory: the system may kill Redis when memory runs out`,
      'Set maxmemory to about half of the memory of its machine; `sluice plan` says how much is needed. Sluice then stops taking new work in time.',
    );
  const found = `${bytes(used_bytes)} of ${bytes(maxmemory_bytes)} used`;
  if (used_bytes > maxmemory_bytes * MEMORY_SHARE_MAX)
    return warning(check, found, 'Soon new work is refused (503): raise maxmemory, or shorten SLUICE_RETENTION.');
  if (fragmentation > FRAGMENTATION_MAX && used_bytes > FRAGMENTATION_BYTES_MIN)
    return warning(check, `${found}, fragmentation ${fragmentation}`, 'CONFIG SET activedefrag yes, or restart a replica and fail over.');
  return ok(check, found);
}

function persistence({ append_only, append_fsync, append_failed, snapshot_failed }: RedisFacts, of: Of): Finding[] {
  const check = of('persistence');
  if (append_failed || snapshot_failed)
    return [
      fault(
        check,
        `the last ${append_failed ? 'append' : 'snapshot'} to disk failed`,
        "Look at Redis's log and at its disk; Redis refuses writes until it works.",
      ),
    ];
  if (!append_only)
    return [
      warning(
        check,
        'the append-only file is off: a restart of Redis loses accepted work',
        'CONFIG SET appendonly yes, and the same in redis.conf.',
      ),
    ];
  if (append_fsync === 'no')
    return [warning(check, 'appendfsync is no: a power failure may lose half a minute', 'CONFIG SET appendfsync everysec.')];
  return [ok(check, `append-only file, appendfsync ${append_fsync ?? 'unknown'}`)];
}

function standing({ role, mode, cluster_state, replicas }: RedisFacts, of: Of): Finding[] {
  if (role === 'slave')
    return [fault(of('role'), 'it is a replica', 'SLUICE_REDIS_URL must name the master, Sentinel (redis+sentinel://…) or a Cluster.')];
  if (mode === 'cluster' && cluster_state !== 'ok')
    return [
      fault(of('cluster'), `cluster_state is ${cluster_state}`, 'Not all slots are served: look at CLUSTER NODES, start what is down.'),
    ];
  if (mode === 'cluster' && replicas === 0)
    return [
      warning(of('replicas'), 'this master has none', 'Give each master a replica, or the loss of a machine stops a part of the work.'),
    ];
  return [ok(of('replicas'), String(replicas))];
}

function clock({ clock_ahead_ms, round_trip_ms }: RedisFacts, of: Of): Finding {
  const check = of('clock');
  const found = `${Math.abs(clock_ahead_ms).toFixed(1)} ms ${clock_ahead_ms < 0 ? 'behind' : 'ahead of'} this machine; round trip ${round_trip_ms.toFixed(2)} ms`;
  if (Math.abs(clock_ahead_ms) > CLOCK_MS_MAX)
    return warning(check, found, 'Let both machines follow a time server (chrony, systemd-timesyncd).');
  if (round_trip_ms > ROUND_TRIP_MS_MAX) return warning(check, found, 'Redis is far away: run Sluice in the same network zone.');
  return ok(check, found);
}
