// Who may run a Redis on a data directory: at most one living Sluice process, whatever died before.
//
// The owner is the process named in the file `owner.<n>` with the highest n, while it lives. Taking over from a dead one
// means making `owner.<n+1>`, which the file system grants to one process only; the highest file is never removed, so a
// starter that is late by any time cannot make a number that was taken before. There is nothing to unlock after a kill.
//
// A process is known by its id and its start time, since ids are used again. The directory must not be shared by hosts.
import { linkSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const NAME = /^owner\.(\d{1,15})$/;
const TRIES_MAX = 100;

export interface Ownership {
  /** Lets another process become the owner. Twice is safe. */
  release(): void;
}

/** Makes this process the owner of `dir`; null while another living owner has it (also one in this process). */
export function takeOwnership(dir: string): Ownership | null {
  const draft = join(dir, `.owner-${process.pid}-${Math.random().toString(36).slice(2)}`);
  writeFileSync(draft, JSON.stringify({ pid: process.pid, started: processStart(process.pid) }), { mode: 0o600 });
  try {
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      const last = highest(dir);
      if (last > 0 && isHeld(join(dir, `owner.${last}`))) return null;
      const mine = join(dir, `owner.${last + 1}`);
      if (!linkNew(draft, mine)) continue;
      removeBelow(dir, last + 1);
      return { release: () => release(mine) };
    }
    throw new Error(`cannot take ${dir}: other processes are starting and ending there all the time`);
  } finally {
    rmSync(draft, { force: true });
  }
}

/** Whether a process of this id runs, and is the one that started at `started` (where that is known). */
export function isAlive(pid: number, started: string | null = null): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    // EPERM: it is there, and another user's.
    if (!(error instanceof Error && 'code' in error && error.code === 'EPERM')) return false;
  }
  const now = processStart(pid);
  return started === null || now === null || now === started;
}

/** When the process started, in ticks since the machine did (Linux); null where that cannot be read. A zombie counts as ended. */
export function processStart(pid: number): string | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The name, in parentheses, may hold anything; after it the fields begin with the third, the state.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return fields[0] === 'Z' ? 'ended' : (fields[19] ?? null);
  } catch {
    return null;
  }
}

function highest(dir: string): number {
  let found = 0;
  for (const name of readdirSync(dir)) {
    const match = NAME.exec(name);
    if (match !== null) found = Math.max(found, Number(match[1]));
  }
  return found;
}

function isHeld(file: string): boolean {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch {
    return false; // Removed by a newer owner: making the next number fails, and the loop looks again.
  }
  try {
    const { pid, started } = JSON.parse(text) as { pid?: unknown; started?: unknown };
    if (typeof pid !== 'number') return false;
    return processStart(pid) !== 'ended' && isAlive(pid, typeof started === 'string' ? started : null);
  } catch {
    return false;
  }
}

/** A link appears with its content, and only where nothing is: false where another process was first. */
function linkNew(from: string, to: string): boolean {
  try {
    linkSync(from, to);
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false;
    throw error;
  }
}

/** A directory that was removed meanwhile has no owner either. */
function release(file: string): void {
  try {
    writeFileSync(file, '{}', { flag: 'r+', mode: 0o600 });
    truncateSync(file, 2);
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ENOENT')) throw error;
  }
}

function removeBelow(dir: string, n: number): void {
  for (const name of readdirSync(dir)) {
    const match = NAME.exec(name);
    if (match !== null && Number(match[1]) < n) rmSync(join(dir, name), { force: true });
  }
}
