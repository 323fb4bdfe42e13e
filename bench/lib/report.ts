// What a run says in the end: a table for people, a line of JSON for later.
import { execFileSync } from 'node:child_process';
import { appendFileSync, readFileSync } from 'node:fs';
import { cpus, loadavg } from 'node:os';
import type { Bench, Figures } from './bench.ts';
import { rounded } from './stats.ts';

const RESULTS = new URL('../results.jsonl', import.meta.url);
const NAME_WIDTH = 34;
const PARTS = ['uWebSockets.js', 'undici', 'ioredis', 'piscina'];

export interface Machine {
  date: string;
  commit: string;
  node: string;
  redis: string;
  /** Of the packages that a server is made of; lines of before 2026-11-26 have none. */
  parts?: Record<string, string>;
  cpu: string;
  cores: number;
  /** Load of the last minute as the run began: much above zero, and others had their share of the figures. */
  load: number;
}

export function describeMachine(redis: string): Machine {
  const cores = cpus();
  return {
    date: new Date().toISOString(),
    commit: commitName(),
    node: process.versions.node,
    redis,
    parts: partVersions(),
    cpu: cores[0]?.model ?? 'unknown',
    cores: cores.length,
    load: loadavg()[0] ?? Number.NaN,
  };
}

function partVersions(): Record<string, string> {
  const lock = JSON.parse(readFileSync(new URL('../../package-lock.json', import.meta.url), 'utf8')) as Lock;
  return Object.fromEntries(PARTS.map((name) => [name, lock.packages[`node_modules/${name}`]?.version ?? 'unknown']));
}

interface Lock {
  packages: Record<string, { version: string } | undefined>;
}

/** Short, with `+` where the files differ from it. */
function commitName(): string {
  try {
    return execFileSync('git', ['describe', '--always', '--exclude=*', '--dirty=+'], { encoding: 'utf8', stdio: 'pipe' }).trim();
  } catch {
    return 'unknown';
  }
}

/** One line for this run, behind those of earlier ones. */
export function record(line: Machine & object): void {
  appendFileSync(RESULTS, `${JSON.stringify(line, (_name, value) => (typeof value === 'number' ? rounded(value) : value))}\n`);
}

/** `ranges`: of each row that was repeated, and each figure, the least and the most. */
export function table(machine: Machine, benches: readonly Bench[], results: Record<string, Figures>, ranges: Ranges = {}): string {
  const { cores, cpu, load, node, redis, commit, date } = machine;
  const lines = [`${cores} cores, ${cpu}, load ${load.toFixed(1)} at the start; Node ${node}, Redis ${redis}; ${commit}, ${date}`];
  for (const { name, what } of benches) {
    lines.push('', `${name}: ${what}`);
    for (const [figure, value] of Object.entries(results[name] ?? {})) {
      const range = ranges[name]?.[figure];
      lines.push(`  ${figure.padEnd(NAME_WIDTH)} ${shown(value)}${range === undefined ? '' : ` (${range.map(shown).join('–')})`}`);
    }
  }
  return `${lines.join('\n')}\n`;
}

/** Row → figure → least and most of its repeats. */
export type Ranges = Record<string, Record<string, readonly [least: number, most: number]>>;

function shown(value: number | null): string {
  if (value === null || !Number.isFinite(value)) return '–';
  return rounded(value, value >= 1_000 ? 4 : 3).toLocaleString('en-US', { maximumFractionDigits: 4 });
}
