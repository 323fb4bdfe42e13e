// A Redis to be killed, stopped and started again in the middle of a test. It comes back with every write that it answered; with
// what was there at the last snapshot, as after a failover to a replica that was behind; or, its file being synced each second,
// with all that the machine still knows.
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { Redis } from 'ioredis';
import { endProcess, failed, killAtExit } from '../helpers/redis.ts';

export interface KillableRedis {
  readonly url: string;
  readonly path: string;
  readonly dir: string;
  /** A client that connects again by itself. */
  readonly redis: Redis;
  /** As a crash: resolves when the process is gone. */
  kill9(): Promise<void>;
  /** Resolves when it has read its file and answers. With more for its environment, from here on. */
  start(env?: Record<string, string>): Promise<void>;
  /** Stops it where it stands, until `thaw`. */
  freeze(): void;
  thaw(): void;
}

export interface KillableOptions {
  keeps?: 'all' | 'second' | 'snapshots';
  /** Where its files go; a directory of its own unless given. */
  dir?: string;
  args?: readonly string[];
  env?: Record<string, string>;
}

const FILES = {
  all: ['--appendonly', 'yes', '--appendfsync', 'always'],
  second: ['--appendonly', 'yes', '--appendfsync', 'everysec'],
  snapshots: ['--appendonly', 'no'],
};

export async function startKillableRedis({ keeps = 'all', ...options }: KillableOptions = {}): Promise<KillableRedis> {
  const own = mkdtempSync(join(tmpdir(), 'sluice-killable-'));
  const path = join(own, 's');
  const dir = options.dir ?? own;
  const args = ['--port', '0', '--unixsocket', path, '--dir', dir, '--save', '', ...FILES[keeps], ...(options.args ?? [])];
  let server: ChildProcess | null = null;
  const kill9 = async (): Promise<void> => {
    if (server !== null) await endProcess(server, 'SIGKILL');
  };
  let environment = options.env ?? {};
  const start = async (env: Record<string, string> = {}): Promise<void> => {
    environment = { ...environment, ...env };
    server = spawn('redis-server', args, { stdio: 'ignore', env: { ...process.env, ...environment } });
    killAtExit(server);
    await Promise.race([redis.ping(), failed(server)]);
  };
  const redis = new Redis({ path, retryStrategy: () => 5, maxRetriesPerRequest: null });
  redis.on('error', () => {}); // There is no server for a while.
  after(async () => {
    redis.disconnect();
    await kill9();
    rmSync(own, { recursive: true, force: true });
  });
  await start();
  const signal = (name: NodeJS.Signals): void => void server?.kill(name);
  return { url: `unix://${path}`, path, dir, redis, kill9, start, freeze: () => signal('SIGSTOP'), thaw: () => signal('SIGCONT') };
}
