// One server with its embedded Redis, as a user starts it, in a data directory of its own.
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { embeddedSocket } from '../../src/store/embedded.ts';
import { cpuSeconds, endProcess, killAtExit } from './process.ts';

const START_MS_MAX = 30_000;
const LOOK_AGAIN_MS = 10;
/** The largest that the settings take: the cost of a limit is measured, its refusal never. */
const NO_LIMIT = '1000000';

export interface EngineOptions {
  /** dist/main.js, or src/main.ts (run through tsx). */
  entry: string;
  /** For node itself, such as --cpu-prof. */
  node_args?: readonly string[];
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

  static async start({ entry, node_args = [] }: EngineOptions): Promise<Engine> {
    const data_dir = mkdtempSync(join(tmpdir(), 'sluice-bench-'));
    const token = randomBytes(16).toString('hex');
    const port = await freePort();
    const child = spawn(process.execPath, [...(entry.endsWith('.ts') ? ['--import', 'tsx'] : []), ...node_args, entry], {
      env: {
        ...foreign(process.env),
        SLUICE_PORT: String(port),
        SLUICE_DATA_DIR: data_dir,
        SLUICE_ACCESS_TOKENS: `bench=${token}`,
        SLUICE_ALLOW_PRIVATE_TARGETS: 'true',
        SLUICE_LOG_LEVEL: 'warn',
        SLUICE_LIMIT_BATCH_CREATE: NO_LIMIT,
        SLUICE_LIMIT_BATCH_ADD: NO_LIMIT,
        SLUICE_LIMIT_BATCH_STATUS: NO_LIMIT,
      },
      stdio: ['ignore', 'inherit', 'inherit'],
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

/** This environment without what configures another server. */
function foreign(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith('SLUICE_')));
}

function redisPid(data_dir: string): number {
  return Number(readFileSync(join(data_dir, 'redis.pid'), 'utf8'));
}

/** Where the engine could not end its Redis itself. Its note is gone once it has. */
function endRedis(data_dir: string): void {
  try {
    process.kill(redisPid(data_dir), 'SIGKILL');
  } catch {
    // It ended, as it should.
  }
}

async function freePort(): Promise<number> {
  const server = createServer();
  const port = await new Promise<number>((resolve) => {
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      resolve(typeof address === 'object' && address !== null ? address.port : 0);
    });
  });
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function untilReady(url: string, child: ChildProcess): Promise<void> {
  const give_up_ms = performance.now() + START_MS_MAX;
  while (performance.now() < give_up_ms) {
    if (child.exitCode !== null || child.signalCode !== null)
      throw new Error(`the engine does not start (${child.signalCode ?? child.exitCode})`);
    const ready = await fetch(`${url}/readyz`).then(
      (response) => response.ok,
      () => false,
    );
    if (ready) return;
    await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS));
  }
  throw new Error('the engine is not ready after 30 s');
}
