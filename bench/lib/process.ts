// Child processes of a bench: started, their CPU time read, ended; never left behind, however the bench ends.
import { type ChildProcess, execFileSync, fork } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';

const STOP_WAIT_MS = 10_000;
const ANSWER_WAIT_MS = 30_000;

/** Seconds of CPU (user and system, all threads) that a process has used. NaN where the system does not say. */
export function cpuSeconds(pid: number): number {
  const stat = statOf(pid);
  return (Number(stat[UTIME]) + Number(stat[UTIME + 1])) / ticksPerSecond();
}

/** Field 14 of proc(5), which counts from the process id; behind it stime, and the same of children that have ended. */
const UTIME = 14 - 2;

/** Name, state and parent of a process and what else its `stat` says; empty where the system does not say. */
function statOf(pid: number): string[] {
  try {
    // The name in parentheses may hold spaces, so the fields are counted from its end.
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const end = stat.lastIndexOf(')');
    return [stat.slice(stat.indexOf('(') + 1, end), ...stat.slice(end + 2).split(' ')];
  } catch {
    return [];
  }
}

/** CPU seconds of this process (`bench`), of all below it by what they run, several of a name together, and of those that have ended (`ended`). */
export function cpuByProcess(): Record<string, number> {
  const { user, system } = process.cpuUsage();
  const own = statOf(process.pid);
  const seconds: Record<string, number> = { bench: (user + system) / 1e6 };
  if (own.length > 0) seconds['ended'] = (Number(own[UTIME + 2]) + Number(own[UTIME + 3])) / ticksPerSecond();
  const parents = new Map(processIds().map((pid) => [pid, Number(statOf(pid)[2])]));
  for (const pid of parents.keys()) {
    let above = parents.get(pid);
    while (above !== undefined && above !== process.pid) above = parents.get(above);
    if (above === undefined) continue;
    const [name, used] = [nameOf(pid), cpuSeconds(pid)];
    if (!Number.isNaN(used)) seconds[name] = (seconds[name] ?? 0) + used;
  }
  return seconds;
}

function processIds(): number[] {
  try {
    return readdirSync('/proc').map(Number).filter(Number.isInteger);
  } catch {
    return [];
  }
}

/** Of node the file that it runs: `main`, `receiver`. */
function nameOf(pid: number): string {
  const [name = ''] = statOf(pid);
  try {
    const args = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
    const file = args.find((arg) => /\.[jt]s$/.test(arg));
    return file === undefined ? name : basename(file).replace(/(\.process)?\.[jt]s$/, '');
  } catch {
    return name;
  }
}

/** What each has used since, in seconds; without those that used none. */
export function cpuSince(before: Record<string, number>): Record<string, number> {
  const used = Object.entries(cpuByProcess()).map(([name, seconds]) => [name, seconds - (before[name] ?? 0)] as const);
  return Object.fromEntries(used.filter(([, seconds]) => seconds > 0));
}

let ticks = 0;
function ticksPerSecond(): number {
  ticks ||= Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }));
  return ticks;
}

const atExit = new Set<() => void>();
process.once('exit', () => {
  for (const kill of atExit) kill();
});
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130));

/** Runs `kill` when this process ends, unless what is returned was called before. */
export function killAtExit(kill: () => void): () => void {
  atExit.add(kill);
  return () => atExit.delete(kill);
}

/** Asks a process to end, insists after ten seconds, and waits until it is gone. */
export async function endProcess(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, 'exit');
  child.kill('SIGTERM');
  const timer = setTimeout(() => child.kill('SIGKILL'), STOP_WAIT_MS);
  await gone;
  clearTimeout(timer);
}

/** Resolves with `waited`; rejects where the process that is to answer it has ended, ends first, or takes half a minute. */
export async function answered<Answer>(child: ChildProcess, waited: Promise<Answer>): Promise<Answer> {
  let onExit = (): void => {};
  let timer: NodeJS.Timeout | undefined;
  const ended = new Promise<never>((_, reject) => {
    onExit = () => reject(new Error(`${child.spawnargs.join(' ')} ended (${child.signalCode ?? child.exitCode})`));
    if (child.exitCode !== null || child.signalCode !== null) onExit();
    child.once('exit', onExit);
    timer = setTimeout(() => reject(new Error(`${child.spawnargs.join(' ')} does not answer`)), ANSWER_WAIT_MS);
  });
  try {
    return await Promise.race([waited, ended]);
  } finally {
    clearTimeout(timer);
    child.removeListener('exit', onExit);
  }
}

/** One of our own helper processes: it says `{type: 'ready', port}` and then answers each message with one of its own. */
export class Helper {
  readonly port: number;
  readonly #child: ChildProcess;
  #asking: Promise<unknown> = Promise.resolve();

  private constructor(child: ChildProcess, port: number) {
    this.#child = child;
    this.port = port;
  }

  static async start(file: URL, args: readonly string[] = []): Promise<Helper> {
    const child = fork(fileURLToPath(file), [...args], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
    const keep = killAtExit(() => child.kill('SIGKILL'));
    child.once('exit', keep);
    const ready = (await answerOf(child)) as { port: number };
    return new Helper(child, ready.port);
  }

  cpu_s(): number {
    return cpuSeconds(this.#child.pid ?? 0);
  }

  /** One question at a time: a second one waits for the first answer. */
  ask<Answer>(message: object): Promise<Answer> {
    const asked = this.#asking.then(() => {
      const answer = answerOf(this.#child);
      this.#child.send(message);
      return answer as Promise<Answer>;
    });
    this.#asking = asked.catch(() => {});
    return asked;
  }

  stop(): Promise<void> {
    return endProcess(this.#child);
  }
}

function answerOf(child: ChildProcess): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const onExit = (code: number | null, signal: string | null): void => reject(new Error(`${child.spawnfile} ended (${signal ?? code})`));
    child.once('exit', onExit);
    child.once('message', (message) => {
      child.removeListener('exit', onExit);
      resolve(message);
    });
  });
}
