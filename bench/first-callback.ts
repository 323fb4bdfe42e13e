// How long it takes somebody who has nothing but the address of the repository: a clone in a folder of its own, with an empty HOME, and
// then what the README says first, as it is written, to the first callback that was delivered.
//
// The clone is of what is committed here, from this disk; the packages come from where npm is told to look.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { type Bench, pause } from './lib/bench.ts';
import { endRedis } from './lib/engine.ts';
import { freePort } from './lib/ports.ts';
import { killAtExit } from './lib/process.ts';

const ROOT = fileURLToPath(new URL('../', import.meta.url));
/** The README says so; here it may be taken. */
const PORT = '8080';
const LOOK_AGAIN_MS = 20;
const STEP_MS_MAX = 300_000;
/** How a machine reaches its registry is not a matter of HOME. */
const NETWORK = /^(PATH|npm_config_.*|(https?|no|all)_proxy|NODE_EXTRA_CA_CERTS)$/i;

export interface FirstCallback {
  /** From the clone on: lines that somebody types. */
  commands: readonly string[];
  seconds: number;
  /** Of those: npm; compiling; the server's start, to its greeting. */
  install_s: number;
  build_s: number;
  start_s: number;
}

/** `linked`: with the packages of this checkout, for where there is no network. Rejects where a step fails, with what was printed. */
export async function firstCallback(packages: 'installed' | 'linked'): Promise<FirstCallback> {
  const place = mkdtempSync(join(tmpdir(), 'sluice-first-'));
  const dir = join(place, 'sluice');
  const port = String(await freePort());
  const own = Object.entries(process.env).filter(([name]) => NETWORK.test(name));
  const env = { ...Object.fromEntries(own), HOME: join(place, 'home'), SLUICE_PORT: port };
  mkdirSync(env.HOME);
  const started: ChildProcess[] = [];
  const kill = (): void => {
    for (const child of started) signalGroup(child, 'SIGKILL');
    endRedis(join(dir, 'data'));
    rmSync(place, { recursive: true, force: true, maxRetries: 5 });
  };
  const keep = killAtExit(kill);
  try {
    const from_ms = performance.now();
    const clone = ['git', 'clone', '--quiet', '--no-hardlinks', ROOT, dir];
    await ended(start(clone, place, env, started), 'git clone');
    if (packages === 'linked') symlinkSync(join(ROOT, 'node_modules'), join(dir, 'node_modules'));
    const { start: makes, create } = firstSteps(readFileSync(join(dir, 'README.md'), 'utf8'));
    const server = start(makes.split(' '), dir, env, started);
    const at = await greeted(server, makes);
    await ended(
      start(['bash', '--norc', '-euo', 'pipefail', '-c', create.join('\n').replaceAll(PORT, port)], dir, env, started),
      'the batch',
    );
    await delivered(`http://127.0.0.1:${port}`, readFileSync(join(dir, 'data/token'), 'utf8').trim());
    const seconds = (performance.now() - from_ms) / 1_000;
    signalGroup(server, 'SIGTERM');
    // make is gone before the server is.
    for (let ms = 0; ms < STEP_MS_MAX && signalGroup(server, 0); ms += LOOK_AGAIN_MS) await pause(LOOK_AGAIN_MS);
    const between = (begin: number, end: number): number => Math.max(0, end - begin) / 1_000;
    return {
      commands: ['git clone', 'cd', makes, ...create],
      seconds,
      install_s: packages === 'linked' ? 0 : between(at.install_ms, at.build_ms),
      build_s: between(at.build_ms, at.start_ms),
      start_s: between(at.start_ms, at.ready_ms),
    };
  } finally {
    keep();
    kill();
  }
}

/** What the README says to type: what starts the server, and in a second terminal what creates the first batch. */
function firstSteps(readme: string): { start: string; create: string[] } {
  const [first = '', second = ''] = [...readme.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, text = '']) => text);
  const [makes = ''] = /^make start\b/m.exec(first) ?? [];
  const lines = second.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  const last = lines.findIndex((line) => line.includes('curl'));
  if (makes === '' || last < 0) throw new Error('the README does not begin with a start and a first batch any more');
  return { start: makes, create: lines.slice(0, last + 1) };
}

function start([command = '', ...args]: readonly string[], cwd: string, env: NodeJS.ProcessEnv, started: ChildProcess[]): ChildProcess {
  const child = spawn(command, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
  started.push(child);
  return child;
}

async function ended(child: ChildProcess, what: string): Promise<void> {
  const printed = collect(child);
  const [code] = (await once(child, 'close')) as [number | null];
  if (code !== 0) throw new Error(`${what} ended with ${code}:\n${printed.join('\n')}`);
}

interface Phases {
  install_ms: number;
  build_ms: number;
  start_ms: number;
  ready_ms: number;
}

/** When each part of `make start` began; resolves with the greeting, by which somebody knows that the next step is due. */
function greeted(server: ChildProcess, what: string): Promise<Phases> {
  const began_ms = performance.now();
  const at: Phases = { install_ms: began_ms, build_ms: began_ms, start_ms: began_ms, ready_ms: began_ms };
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => signalGroup(server, 'SIGKILL'), STEP_MS_MAX);
    const printed = collect(server, (line) => {
      const now_ms = performance.now();
      if (line.includes('installing the packages')) at.install_ms = now_ms;
      else if (line.includes('scripts/build.sh')) at.build_ms = now_ms;
      else if (line.includes('SLUICE_ALLOW_PRIVATE_TARGETS is not set')) at.start_ms = now_ms;
      else if (line.includes(' is ready: ')) {
        clearTimeout(timer);
        resolve({ ...at, ready_ms: now_ms });
      }
    });
    server.once('close', (code) => {
      clearTimeout(timer);
      reject(new Error(`${what} ended with ${code}:\n${printed.join('\n')}`));
    });
  });
}

function collect(child: ChildProcess, onLine: (line: string) => void = () => {}): string[] {
  const printed: string[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    if (stream === null) continue;
    createInterface(stream).on('line', (line) => {
      printed.push(line);
      onLine(line);
    });
  }
  return printed;
}

/** The list of batches tells of the first call that was answered. */
async function delivered(url: string, token: string): Promise<void> {
  const give_up_ms = performance.now() + STEP_MS_MAX;
  while (performance.now() < give_up_ms) {
    const response = await fetch(`${url}/v1/batches`, { headers: { authorization: `Bearer ${token}` } });
    const { batches = [] } = (await response.json()) as { batches?: { stats: { completed: number } }[] };
    if (batches.some(({ stats }) => stats.completed > 0)) return;
    await pause(LOOK_AGAIN_MS);
  }
  throw new Error('no callback was delivered');
}

/** make, its shell and the server are one group. False: all of it is gone. */
function signalGroup({ pid }: ChildProcess, signal: NodeJS.Signals | 0): boolean {
  if (pid === undefined) return false;
  try {
    return process.kill(-pid, signal);
  } catch {
    return false;
  }
}

export const firstCallbackBench: Bench = {
  name: 'first_callback',
  once: true,
  what: 'from a clone, with an empty HOME, to the first callback, as the README says it',
  async run({ smoke }) {
    const nothing = { seconds: null, commands: null, install_s: null, build_s: null, start_s: null };
    if (!existsSync(join(ROOT, '.git'))) return nothing;
    try {
      const { commands, ...seconds } = await firstCallback(smoke ? 'linked' : 'installed');
      return { ...seconds, commands: commands.length };
    } catch (error) {
      // Without a network, say: the other benches need none.
      process.stderr.write(`first_callback: ${String(error)}\n`);
      return nothing;
    }
  },
};
