// One server with its embedded Redis, as a user starts it, in a data directory of its own.
import type { ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { embeddedSocket } from '../../src/store/embedded.ts';
import { freePort } from './ports.ts';
import { cpuSeconds, endProcess, killAtExit } from './process.ts';
import { spawnServer, untilReady } from './server.ts';

export interface EngineOptions {
  /** dist/main.js, or src/main.ts (run through tsx). */
  entry: string;
  /** For node itself, such as --cpu-prof. */
  node_args?: readonly string[];
  env?: Record<string, string>;
}

export class Engine {
  readonly url: string;
  readonly token: string;
  readonly socket: string;
  /** A client of ours on the engine's Redis, for INFO. */
  readonly redis: Redis;
  readonly #child: ChildProcess;
  readonly #redis_pid: number;
  readonly #data_dir: string;

  private constructor(parts: { url: string; token: string; socket: string; child: ChildProcess; data_dir: string }) {
    this.url = parts.url;
    this.token = parts.token;
    this.socket = parts.socket;
    this.#child = parts.child;
    this.#data_dir = parts.data_dir;
    this.#redis_pid = redisPid(parts.data_dir);
    this.redis = new Redis({ path: parts.socket });
  }

  static async start({ entry, node_args = [], env = {} }: EngineOptions): Promise<Engine> {
    const data_dir = mkdtempSync(join(tmpdir(), 'sluice-bench-'));
    const token = randomBytes(16).toString('hex');
    const port = await freePort();
    const child = spawnServer(entry, node_args, {
      SLUICE_PORT: String(port),
      SLUICE_DATA_DIR: data_dir,
      SLUICE_ACCESS_TOKENS: `bench=${token}`,
      ...env,
    });
    const keep = killAtExit(() => {
      child.kill('SIGKILL');
      endRedis(data_dir);
      rmSync(data_dir, { recursive: true, force: true });
    });
    const url = `http://127.0.0.1:${port}`;
    await untilReady(url, child);
    const socket = await embeddedSocket(data_dir);
    if (socket === null) throw new Error('the engine is ready, and its Redis is not to be found');
    const engine = new Engine({ url, token, socket, child, data_dir });
    child.once('exit', (code, signal) => {
      if (signal !== 'SIGTERM' && code !== 0) process.stderr.write(`the engine ended by itself (${signal ?? code})\n`);
    });
    engine.#forget = keep;
    return engine;
  }

  #forget = (): void => {};

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  cpu_s(): { engine: number; redis: number } {
    return { engine: cpuSeconds(this.#child.pid ?? 0), redis: cpuSeconds(this.#redis_pid) };
  }

  /** A number from INFO, as it stands now. */
  async info(section: 'memory' | 'stats', ...names: readonly string[]): Promise<number[]> {
    const text = await this.redis.info(section);
    return names.map((name) => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(text)?.[1] ?? Number.NaN));
  }

  /** Bytes that Redis uses for what it keeps: without the buffers of its clients and of its append-only file. */
  async kept_bytes(): Promise<number> {
    const [used = 0, clients = 0, aof = 0] = await this.info('memory', 'used_memory', 'mem_clients_normal', 'mem_aof_buffer');
    return used - clients - aof;
  }

  async redis_version(): Promise<string> {
    return /^redis_version:(\S+)/m.exec(await this.redis.info('server'))?.[1] ?? 'unknown';
  }

  async stop(): Promise<void> {
    this.redis.disconnect();
    await endProcess(this.#child);
    endRedis(this.#data_dir);
    rmSync(this.#data_dir, { recursive: true, force: true });
    this.#forget();
  }
}

function redisPid(data_dir: string): number {
  return Number(readFileSync(join(data_dir, 'redis.pid'), 'utf8'));
}

/** Where the engine could not end its Redis itself. Its note is gone once it has. */
export function endRedis(data_dir: string): void {
  try {
    process.kill(redisPid(data_dir), 'SIGKILL');
  } catch {
    // It ended, as it should.
  }
}
