// Runs one fault and says what became of it; the figures of all that ran, as a table and as a line for later.
import { appendFileSync } from 'node:fs';
import type { Machine } from '../../bench/lib/report.ts';
import { type Fault, type Judgement, NotHere, titleOf } from './fault.ts';
import { Scene } from './scene.ts';

export type Outcome = { kind: 'judged'; judgement: Judgement } | { kind: 'not_here'; why: string } | { kind: 'broken'; why: string };

const RESULTS = new URL('../results.jsonl', import.meta.url);
const WHAT_WIDTH = 64;

export async function runFault(fault: Fault, seed: number, quick: boolean): Promise<Outcome> {
  const scene = await Scene.open(seed, quick);
  try {
    return { kind: 'judged', judgement: await fault.run(scene) };
  } catch (error) {
    if (error instanceof NotHere) return { kind: 'not_here', why: error.message };
    const why = error instanceof Error ? (error.stack ?? error.message) : String(error);
    return { kind: 'broken', why: `${why}\n${scene.told()}` };
  } finally {
    scene.driver.giveUp();
  }
}

/** Whether all that is required was so. */
export function held(outcome: Outcome): boolean {
  return outcome.kind === 'judged' && outcome.judgement.faults.length === 0;
}

const COLUMNS: [string, number][] = [
  ['accepted', 9],
  ['lost', 5],
  ['uncalled', 9],
  ['twice', 6],
  ['counted twice', 14],
  ['drift', 6],
  ['recovery s', 11],
];

export function header(): string {
  return `${'row'.padEnd(24)}${'fault'.padEnd(WHAT_WIDTH)}${COLUMNS.map(([name, width]) => name.padStart(width)).join('')}  verdict`;
}

export function line(fault: Fault, outcome: Outcome): string {
  const start = titleOf(fault).padEnd(24) + fault.what.padEnd(WHAT_WIDTH);
  if (outcome.kind === 'not_here') return `${start}  not run here: ${outcome.why}`;
  if (outcome.kind === 'broken') return `${start}  BROKEN: ${outcome.why.split('\n')[0]}`;
  const { accepted, lost, uncalled, duplicates, double_counted, drift, recovery_s, faults } = outcome.judgement;
  const cells = [accepted, lost, uncalled, duplicates, double_counted, drift, recovery_s.toFixed(1)];
  const figures = cells.map((cell, i) => String(cell).padStart(COLUMNS[i]?.[1] ?? 0)).join('');
  return `${start}${figures}  ${verdictOf(fault, outcome.judgement)}${faults.length === 0 ? '' : `: ${faults.slice(0, 3).join('; ')}`}`;
}

/** `held` is the strongest word: nothing was lost. */
function verdictOf({ loses }: Fault, { faults, lost }: Judgement): string {
  if (faults.length > 0) return 'FAILED';
  return loses === true && lost > 0 ? `lost ${lost}, as Redis may` : 'held';
}

/** What the columns do not say. */
export function remarks({ duplicates_max, more }: Judgement): string {
  const figures = Object.entries(more).map(([name, value]) => `${name} ${Math.round(value * 1_000) / 1_000}`);
  return [`twice at most ${duplicates_max}`, ...figures].join(', ');
}

export interface Run {
  fault: Fault;
  seed: number;
  outcome: Outcome;
}

/** One line for this run, behind those of earlier ones. */
export function record(machine: Machine, runs: readonly Run[]): void {
  const results = runs.map(({ fault, seed, outcome }) => {
    const said = outcome.kind === 'judged' ? outcome.judgement : { kind: outcome.kind, why: outcome.why.split('\n')[0] };
    return [titleOf(fault), { seed, ...said }];
  });
  appendFileSync(RESULTS, `${JSON.stringify({ ...machine, results: Object.fromEntries(results) })}\n`);
}
