// A real Redis for one test file: its own process, its own unix socket, nothing on disk unless asked for.
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { Redis } from 'ioredis';

export interface TestRedis {
  redis: Redis;
  /** The unix socket, for further clients. */
  path: string;
  /** Working directory of the server; removed when it stops. */
  dir: string;
  /** Ends the server as a shutdown would; called by itself when the test file ends. Twice is safe. */
  stop(): Promise<void>;
}

const CONNECT_TRIES_MAX = 1000;

/** Starts a server (about 20 ms). `args` are appended to its command line and win over the defaults. */
export async function startRedis(options: { args?: readonly string[] } = {}): Promise<TestRedis> {
  const dir = mkdtempSync(join(tmpdir(), 'sluice-redis-'));
  const path = join(dir, 's');
  const base = ['--port', '0', '--unixsocket', path, '--save', '', '--appendonly', 'no', '--dir', dir];
  const server = spawn('redis-server', [...base, ...(options.args ?? [])], { stdio: 'ignore' });
  killAtExit(server);
  const redis = new Redis({ path, retryStrategy: () => 5, maxRetriesPerRequest: CONNECT_TRIES_MAX });
  redis.on('error', () => {}); // The first connects race the server's start.
  const stop = stopOnce(async () => {
    redis.disconnect();
    await endProcess(server, 'SIGTERM');
    rmSync(dir, { recursive: true, force: true });
  });
  after(stop);
  try {
    await Promise.race([redis.ping(), failed(server)]);
  } catch (error) {
    await stop();
    throw error;
  }
  return { redis, path, dir, stop };
}

/** Ends one process that this test started, and waits until it is gone. */
export async function endProcess(child: ChildProcess, signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const gone = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  child.kill(signal);
  await gone;
}

/** A server that is missing or refuses its arguments ends at once; without this the first ping would wait for ever. */
export function failed(server: ChildProcess): Promise<never> {
  return new Promise((_, reject) => {
    server.once('error', (error) => reject(new Error(`redis-server does not start: ${error.message}`)));
    server.once('exit', (code, signal) => reject(new Error(`redis-server ended at once (${code ?? signal})`)));
  });
}

/** `stop` that runs once, however often it is called. */
export function stopOnce(stop: () => Promise<void>): () => Promise<void> {
  let stopped: Promise<void> | null = null;
  return () => {
    stopped ??= stop();
    return stopped;
  };
}

// The runner ends a file that takes too long by SIGTERM, and a process that dies of a signal says no `exit`.
process.once('SIGTERM', () => process.exit(143));

/** A test file that crashes runs no hooks; its servers must not outlive it. */
export function killAtExit(child: ChildProcess): void {
  const kill = (): void => void child.kill('SIGKILL');
  process.once('exit', kill);
  child.once('exit', () => process.removeListener('exit', kill));
}

const LOOK_AGAIN_MS = 10;

/** Resolves once `holds` does, for what announces itself by no event; rejects after `ms_max`. `what` completes "waited for". */
export async function until(holds: () => Promise<boolean> | boolean, ms_max: number, what: string): Promise<void> {
  const end_ms = performance.now() + ms_max;
  while (!(await holds())) {
    if (performance.now() > end_ms) throw new Error(`waited ${ms_max} ms for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS));
  }
}
