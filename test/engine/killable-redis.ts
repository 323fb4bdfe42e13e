// A Redis to be killed and started again in the middle of a test. It comes back with every write that it answered, or, where
// it keeps snapshots, with what was there at the last one: as after a failover to a replica that was behind.
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { Redis } from 'ioredis';
import { endProcess, failed, killAtExit } from '../helpers/redis.ts';

export interface KillableRedis {
  readonly url: string;
  /** A client that connects again by itself. */
  readonly redis: Redis;
  /** As a crash: resolves when the process is gone. */
  kill9(): Promise<void>;
  /** Resolves when it has read its file and answers. */
  start(): Promise<void>;
}

export async function startKillableRedis({ keeps = 'all' }: { keeps?: 'all' | 'snapshots' } = {}): Promise<KillableRedis> {
  const dir = mkdtempSync(join(tmpdir(), 'sluice-killable-'));
  const path = join(dir, 's');
  const file = keeps === 'all' ? ['--appendonly', 'yes', '--appendfsync', 'always'] : ['--appendonly', 'no'];
  const args = ['--port', '0', '--unixsocket', path, '--dir', dir, '--save', '', ...file];
  let server: ChildProcess | null = null;
  const kill9 = async (): Promise<void> => {
    if (server !== null) await endProcess(server, 'SIGKILL');
  };
  const start = async (): Promise<void> => {
    server = spawn('redis-server', args, { stdio: 'ignore' });
    killAtExit(server);
    await Promise.race([redis.ping(), failed(server)]);
  };
  const redis = new Redis({ path, retryStrategy: () => 5, maxRetriesPerRequest: null });
  redis.on('error', () => {}); // There is no server for a while.
  after(async () => {
    redis.disconnect();
    await kill9();
    rmSync(dir, { recursive: true, force: true });
  });
  await start();
  return { url: `unix://${path}`, redis, kill9, start };
}
