// The redis-server program on this machine: where it is, how it is started, where it listens, and who answers there.
import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  renameSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir, totalmem } from 'node:os';
import { delimiter, dirname, join, resolve } from 'node:path';
import { Redis } from 'ioredis';
import { isAlive, processStart } from './datadir.ts';
import { StoreRefused } from './errors.ts';

/** sun_path holds 108 bytes with its final zero; redis-server cuts longer paths silently. */
const SOCKET_BYTES_MAX = 107;
const PROBE_TIMEOUT_MS = 1_000;
/** Of the memory this process may use. Admission stops below it, before the system's OOM killer comes. */
const MEMORY_SHARE = 0.5;
const INSTALL =
  'Run "make setup", or install it with your package manager (Debian and Ubuntu: apt-get install redis-server; macOS: brew install redis), or set SLUICE_REDIS_URL.';

export function serverArgs(dir: string, socket: string): string[] {
  const memory = process.constrainedMemory?.() ?? 0;
  // Without a limit the system reports none, or an absurd number.
  const usable = memory > 0 ? Math.min(memory, totalmem()) : totalmem();
  return Object.entries({
    port: '0',
    unixsocket: socket,
    unixsocketperm: '700',
    dir,
    daemonize: 'no',
    'protected-mode': 'yes',
    save: '',
    appendonly: 'yes',
    appendfsync: 'everysec',
    'aof-use-rdb-preamble': 'yes',
    // A rewrite takes a core for a while: not for each 64 MiB that are written.
    'auto-aof-rewrite-min-size': '256mb',
    'maxmemory-policy': 'noeviction',
    maxmemory: String(Math.floor(usable * MEMORY_SHARE)),
    // Scripts take milliseconds; one that takes a second is a fault that others should hear of (BUSY) soon.
    'busy-reply-threshold': '1000',
  }).flatMap(([name, value]) => [`--${name}`, value]);
}

/** The first of these names that PATH has; one with a slash is a path. */
export function findBinary(names: readonly string[]): string {
  const dirs = (process.env['PATH'] ?? '').split(delimiter);
  const places = names.flatMap((name) => (name.includes('/') ? [resolve(name)] : dirs.map((dir) => join(dir, name))));
  for (const place of places) {
    try {
      accessSync(place, constants.X_OK);
      return place;
    } catch {
      // Not here.
    }
  }
  throw new StoreRefused(`There is no ${names.join(' or ')} on this machine, and SLUICE_REDIS_URL is not set. ${INSTALL}`);
}

export function openDir(data_dir: string): string {
  try {
    mkdirSync(data_dir, { recursive: true, mode: 0o700 });
    const dir = realpathSync(data_dir);
    accessSync(dir, constants.R_OK | constants.W_OK | constants.X_OK);
    return dir;
  } catch (error) {
    throw new StoreRefused(`The data directory ${resolve(data_dir)} (SLUICE_DATA_DIR) cannot be used: ${String(error)}.`);
  }
}

/** Where the server of this directory listens: inside it, or in a short directory of its own where that path is too long. */
export function socketPath(dir: string): string {
  const known = knownSocket(dir);
  // A recorded directory may be gone: cleaners of temporary files take what nobody reads.
  if (known !== null && (dirname(known) === dir || existsSync(dirname(known)))) return known;
  const short = [tmpdir(), '/tmp'].find((base) => Buffer.byteLength(base) < SOCKET_BYTES_MAX - 30) ?? '/tmp';
  const socket = join(mkdtempSync(join(short, 'sluice-')), 'redis.sock');
  const draft = join(dir, `.redis.socket-${process.pid}`);
  writeFileSync(draft, socket, { mode: 0o600 });
  renameSync(draft, join(dir, 'redis.socket'));
  return socket;
}

export function knownSocket(dir: string): string | null {
  const inside = join(dir, 'redis.sock');
  return Buffer.byteLength(inside) <= SOCKET_BYTES_MAX ? inside : readText(join(dir, 'redis.socket'));
}

export interface Answer {
  pid: number | null;
  /** Null where the server does not say (still loading). */
  dir: string | null;
  loading: boolean;
  percent: string | null;
}

/** Who answers on this socket. INFO works while the data is loading; CONFIG does too. */
export async function probe(socket: string): Promise<Answer | 'silent'> {
  const options = { path: socket, lazyConnect: true, retryStrategy: null, enableReadyCheck: false, maxRetriesPerRequest: 0 };
  const redis = new Redis({
    ...options,
    connectTimeout: PROBE_TIMEOUT_MS,
    commandTimeout: PROBE_TIMEOUT_MS,
    connectionName: 'sluice-keeper',
  });
  redis.on('error', () => {});
  try {
    const info = await redis.info();
    const field = (name: string): string | null => new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1] ?? null;
    const pid = Number(field('process_id') ?? Number.NaN);
    const [, dir = null] = (await redis.config('GET', 'dir')) as [string, string?];
    return { pid: Number.isInteger(pid) ? pid : null, dir, loading: field('loading') === '1', percent: field('loading_loaded_perc') };
  } catch {
    return 'silent';
  } finally {
    redis.disconnect();
  }
}

/** Whether `pid` is a living redis-server that works in `dir` (it changes into its data directory). */
export function isServerOf(pid: number, dir: string): boolean {
  if (processStart(pid) === 'ended' || !isAlive(pid)) return false;
  try {
    return readlinkSync(`/proc/${pid}/cwd`) === dir;
  } catch {
    return !existsSync('/proc/self');
  }
}

export function readText(file: string): string | null {
  try {
    return readFileSync(file, 'utf8').trim() || null;
  } catch {
    return null;
  }
}
