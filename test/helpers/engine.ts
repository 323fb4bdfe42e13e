// A real engine for end-to-end tests: `src/main.ts` in a process of its own, on a free port, with what a test needs to
// kill it. Its embedded Redis, where it has one, ends with the data directory it belongs to.
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { programArgs } from './program.ts';
import { endProcess, killAtExit, stopOnce, until } from './redis.ts';

/** The accounts of every test; their tokens have scope admin. */
export const TOKENS = { acme: 'acme-token-of-the-tests-0001', rival: 'rival-token-of-the-tests-0002' } as const;

export interface EngineOptions {
  /** Absent: the embedded Redis of `data_dir`. */
  redis_url?: string;
  /** Absent: a fresh one, removed when the test ends. */
  data_dir?: string;
  /** Settings, with `SLUICE_` in front. */
  env?: Record<string, string>;
  tokens?: Record<string, string>;
  /** Arguments of Node, in front of the program. */
  node_args?: readonly string[];
  /** The program, where it is not that of this checkout. */
  main?: string;
  /** A command that runs what follows it, in its own place: `unshare -m …`. */
  within?: readonly string[];
}

export interface Engine {
  readonly url: string;
  readonly pid: number;
  readonly data_dir: string;
  /** Lines of its log so far. */
  logs(): readonly string[];
  signal(name: NodeJS.Signals): void;
  /** As a lost machine: resolves when the process is gone. Its embedded Redis lives on. */
  kill9(): Promise<void>;
  /** SIGTERM; resolves with the exit code. */
  stop(): Promise<Exit>;
  readonly ended: Promise<Exit>;
  /** Runs `sluice …` with the same settings; rejects where it fails. */
  cli(...args: string[]): Promise<string>;
}

/** Exit code, or the signal that ended the process. */
type Exit = number | NodeJS.Signals | null;

/** A machine that runs many tests at once is slow to start one; what ends at once is told at once. */
const READY_MS_MAX = 90_000;
const ROOT = new URL('../../', import.meta.url);
/** API limits are the matter of their own tests; callbacks go to this machine. */
const DEFAULTS = {
  SLUICE_PORT: '0',
  SLUICE_ALLOW_PRIVATE_TARGETS: 'true',
  SLUICE_LIMIT_BATCH_CREATE: '0',
  SLUICE_LIMIT_BATCH_ADD: '0',
  SLUICE_LIMIT_BATCH_STATUS: '0',
  // As bin/sluice has it: look-ups of host names have threads enough.
  UV_THREADPOOL_SIZE: '128',
};

/** How to end the engines of each data directory. */
const ENDS = new Map<string, readonly (() => Promise<void>)[]>();

/** Resolves when /readyz says 200. Ended by itself when the test, or the file, that started it ends. */
export async function startEngine(options: EngineOptions = {}): Promise<Engine> {
  const data_dir = options.data_dir ?? dataDir();
  const env = environment(options, data_dir);
  const program = options.main === undefined ? programArgs('main', options.node_args) : [options.main];
  const [command = '', ...args] = [...(options.within ?? []), process.execPath, ...program];
  const child = spawn(command, args, {
    cwd: ROOT,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  killAtExit(child);
  const end = (): Promise<void> => endProcess(child, 'SIGKILL');
  ENDS.set(data_dir, [...(ENDS.get(data_dir) ?? []), end]);
  after(end);
  const lines: string[] = [];
  collect(child, lines);
  const ended = new Promise<Exit>((resolve) => child.once('exit', (code, signal) => resolve(code ?? signal)));
  let url = '';
  const ready = async (): Promise<boolean> => {
    if (child.exitCode !== null || child.signalCode !== null) throw new Error(`the engine ended at once:\n${lines.join('\n')}`);
    url ||= listeningUrl(lines);
    return url !== '' && (await isReady(url));
  };
  try {
    await until(ready, READY_MS_MAX, 'the engine to be ready');
  } catch (error) {
    throw new Error(`${String(error)}\n${lines.join('\n')}`);
  }
  return {
    url,
    pid: child.pid ?? 0,
    data_dir,
    ended,
    logs: () => lines,
    signal: (name) => void child.kill(name),
    kill9: () => endProcess(child, 'SIGKILL'),
    async stop() {
      child.kill('SIGTERM');
      return ended;
    },
    cli: (...args) => runCli(args, env),
  };
}

/** A data directory for engines that follow one another; it goes, with the Redis that runs in it, when the test ends. */
export function dataDir(): string {
  const dir = mkdtempSync(join(tmpdir(), 'sluice-engine-'));
  const remove = stopOnce(async () => {
    // Hooks run in the order in which they were made, and an engine that lives starts its Redis again, in this directory.
    await Promise.all((ENDS.get(dir) ?? []).map((end) => end()));
    process.removeListener('exit', kill);
    kill();
    rmSync(dir, { recursive: true, force: true, maxRetries: 5 });
  });
  const kill = (): void => {
    const pid = embeddedPid(dir);
    if (pid !== null) process.kill(pid, 'SIGKILL');
  };
  process.once('exit', kill);
  after(remove);
  return dir;
}

/** Process id of the Redis that runs in a data directory; null where none does. */
export function embeddedPid(data_dir: string): number | null {
  const path = join(data_dir, 'redis.pid');
  const pid = existsSync(path) ? Number(readFileSync(path, 'utf8').trim()) : 0;
  try {
    return pid > 0 && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('redis-server') ? pid : null;
  } catch {
    return null;
  }
}

function environment({ redis_url, env = {}, tokens = TOKENS }: EngineOptions, data_dir: string): NodeJS.ProcessEnv {
  const own = Object.entries(process.env).filter(([name]) => !name.startsWith('SLUICE_') && name !== 'NODE_TEST_CONTEXT');
  return {
    ...Object.fromEntries(own),
    ...DEFAULTS,
    SLUICE_DATA_DIR: data_dir,
    ...(redis_url === undefined ? {} : { SLUICE_REDIS_URL: redis_url }),
    SLUICE_ACCESS_TOKENS: Object.entries(tokens)
      .map(([account, token]) => `${account}=${token}`)
      .join(','),
    ...env,
  };
}

function collect(child: ChildProcess, lines: string[]): void {
  for (const stream of [child.stdout, child.stderr]) {
    let rest = '';
    stream?.setEncoding('utf8').on('data', (text: string) => {
      const parts = (rest + text).split('\n');
      rest = parts.pop() ?? '';
      lines.push(...parts);
    });
  }
}

function listeningUrl(lines: readonly string[]): string {
  const line = lines.find((one) => one.includes('"msg":"listening"'));
  return line === undefined ? '' : (JSON.parse(line) as { url: string }).url;
}

async function isReady(url: string): Promise<boolean> {
  return fetch(`${url}/readyz`).then(
    (response) => response.status === 200,
    () => false,
  );
}

function runCli(args: readonly string[], env: NodeJS.ProcessEnv): Promise<string> {
  const child = spawn(process.execPath, [...programArgs('cli'), ...args], { cwd: ROOT, env, stdio: ['ignore', 'pipe', 'pipe'] });
  killAtExit(child);
  const out: string[] = [];
  const err: string[] = [];
  child.stdout.setEncoding('utf8').on('data', (text: string) => out.push(text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => err.push(text));
  return new Promise((resolve, reject) => {
    child.once('close', (code) => {
      if (code === 0) resolve(out.join('').trim());
      else reject(new Error(`sluice ${args.join(' ')} ended with ${code}: ${err.join('')}`));
    });
  });
}
