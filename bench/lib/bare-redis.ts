// A redis-server for a library that a bench compares with: nothing else is in it. Nothing is written to disk, unless it is to
// keep what Sluice's keeps.
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { answered, cpuSeconds, endProcess, killAtExit } from './process.ts';

export class BareRedis {
  /** Its unix socket. */
  readonly path: string;
  readonly #dir: string;
  readonly #child: ChildProcess;
  readonly #forget: () => void;

  private constructor(dir: string, append_only: boolean) {
    this.#dir = dir;
    this.path = join(dir, 's');
    const args = ['--port', '0', '--unixsocket', this.path, '--save', '', '--appendonly', append_only ? 'yes' : 'no', '--dir', dir];
    this.#child = spawn('redis-server', args, { stdio: 'ignore' });
    this.#forget = killAtExit(() => this.#child.kill('SIGKILL'));
  }

  /** `append_only`: with an append-only file that is synced each second, as Sluice's Redis has. */
  static async start({ append_only = false } = {}): Promise<BareRedis> {
    const server = new BareRedis(mkdtempSync(join(tmpdir(), 'sluice-bench-redis-')), append_only);
    const redis = new Redis({ path: server.path, retryStrategy: () => 5, maxRetriesPerRequest: null });
    redis.on('error', () => {}); // The first connects race the server's start.
    await answered(server.#child, redis.ping());
    redis.disconnect();
    return server;
  }

  cpu_s(): number {
    return cpuSeconds(this.#child.pid ?? 0);
  }

  async version(): Promise<string> {
    const redis = new Redis({ path: this.path });
    const text = await redis.info('server');
    redis.disconnect();
    return /^redis_version:(\S+)/m.exec(text)?.[1] ?? 'unknown';
  }

  async stop(): Promise<void> {
    await endProcess(this.#child);
    rmSync(this.#dir, { recursive: true, force: true });
    this.#forget();
  }
}
