// A Redis that keeps an append-only file, to be killed and started again in the middle of a test.
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { Redis } from 'ioredis';
import { endProcess, failed, killAtExit } from '../helpers/redis.ts';

export interface KillableRedis {
  readonly url: string;
  /** As a crash: resolves when the process is gone. */
  kill9(): Promise<void>;
  /** Resolves when it has read its file and answers. */
  start(): Promise<void>;
}

/** Every write is on disk before it is answered. */
export async function startKillableRedis(): Promise<KillableRedis> {
  const dir = mkdtempSync(join(tmpdir(), 'sluice-killable-'));
  const path = join(dir, 's');
  const args = ['--port', '0', '--unixsocket', path, '--dir', dir, '--save', '', '--appendonly', 'yes', '--appendfsync', 'always'];
  let server: ChildProcess | null = null;
  const kill9 = async (): Promise<void> => {
    if (server !== null) await endProcess(server, 'SIGKILL');
  };
  const start = async (): Promise<void> => {
    server = spawn('redis-server', args, { stdio: 'ignore' });
    killAtExit(server);
    const redis = new Redis({ path, retryStrategy: () => 5, maxRetriesPerRequest: null });
    redis.on('error', () => {}); // The first connects race the server's start.
    await Promise.race([redis.ping(), failed(server)]).finally(() => redis.disconnect());
  };
  after(async () => {
    await kill9();
    rmSync(dir, { recursive: true, force: true });
  });
  await start();
  return { url: `unix://${path}`, kill9, start };
}
