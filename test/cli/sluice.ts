// Runs the command line as a process of its own.
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';

import { programArgs } from '../helpers/program.ts';
import { killAtExit } from '../helpers/redis.ts';

export interface Ran {
  code: number | null;
  out: string;
  err: string;
}

export interface Running {
  child: ChildProcess;
  ended: Promise<Ran>;
}

/** `env` is all that it gets, beside PATH. */
export function begin(args: readonly string[], env: Record<string, string>, options: { cwd?: string; stdin?: string } = {}): Running {
  const child = spawn(process.execPath, [...programArgs('cli'), ...args], {
    env: { PATH: process.env['PATH'] ?? '', ...env },
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
  });
  killAtExit(child);
  let [out, err] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    err += text;
  });
  child.stdin.on('error', () => {}); // It may end before it has read all.
  child.stdin.end(options.stdin ?? '');
  const ended = new Promise<Ran>((resolve) => child.once('close', (code) => resolve({ code, out, err })));
  return { child, ended };
}

export function sluice(args: readonly string[], env: Record<string, string>, options: { cwd?: string; stdin?: string } = {}): Promise<Ran> {
  return begin(args, env, options).ended;
}

/** A directory that goes when the test ends. */
export function freshDir(): string {
  const dir = mkdtempSync(join(tmpdir(), 'sluice-cli-'));
  after(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}
