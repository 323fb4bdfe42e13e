// From what each side did in each repeat to the lines of the table, as text and as Markdown.
import type { Figures } from '../lib/bench.ts';
import type { Machine } from '../lib/report.ts';
import { percentile, rounded } from '../lib/stats.ts';
import type { Measure, Row } from './row.ts';

/** Side → figures of each repeat. */
export type Samples = Record<string, readonly Figures[]>;

/** Side → figures of all repeats together. */
export type Together = Record<string, Figures>;

/** Side → process → seconds. */
export type Cpu = Record<string, Record<string, number>>;

export interface Spread {
  min: number;
  /** Of what is of all repeats together, that. */
  median: number;
  max: number;
}

export interface Line {
  number: string;
  measure: string;
  sluice: Spread;
  peer: Spread | null;
  /** Of the two in each repeat; where the measure is no ratio, null. */
  ratio: Spread | null;
  better: 'higher' | 'lower';
  must: number | null;
  aim: number | null;
  /** What stands for the median is of all repeats together. */
  together?: true;
  /** Null: nothing is asked of it. */
  met: 'aim' | 'must' | 'no' | null;
}

/** One run as it is kept in results.jsonl. */
export interface TableRun extends Machine {
  smoke: boolean;
  repeats: number;
  /** Of a server; lines of before 2026-11-24 have none, and had cores − 1. */
  callback_threads?: number;
  versions: Record<string, string>;
  table: Line[];
  /** Row → side.figure → medians. */
  figures: Record<string, Record<string, number | null>>;
  /** Row → side → process → CPU seconds in all turns of that side, also of what the others left running meanwhile. */
  cpu_s?: Record<string, Cpu>;
  left_out: string[];
}

/** The lines of a row; none for a measure whose Sluice side has no such figure. */
export function judge(row: Row, samples: Samples, together: Together = {}): Line[] {
  return row.measures.flatMap((measure) => judgeOne(measure, samples, together));
}

function judgeOne(measure: Measure, samples: Samples, together: Together): Line[] {
  const ours = series(samples, measure.sluice);
  const theirs = measure.peer === undefined ? null : series(samples, measure.peer);
  if (ours === null) return [];
  const { number, measure: text, better, must, aim, value } = measure;
  if (value !== 'sluice' && theirs === null) return [];
  const all = (path: string | undefined): number => figureOf((measure.together && together) || {}, path ?? '');
  const [sluice, peer] = [spread(ours, all(measure.sluice)), theirs === null ? null : spread(theirs, all(measure.peer))];
  const ratios = value === 'sluice' ? null : ours.map((one, i) => quotient(one, theirs?.[i] ?? Number.NaN, value));
  const ratio = ratios === null ? null : spread(ratios, quotient(all(measure.sluice), all(measure.peer), value));
  const judged = (ratio ?? sluice).median;
  const met = verdict(judged, better, must, aim);
  return [{ ...{ number, measure: text, sluice, peer, ratio, better, must, aim, met }, ...(measure.together ? { together: true } : {}) }];
}

function figureOf(of: Together, path: string): number {
  const [side = '', figure = ''] = path.split('.');
  return of[side]?.[figure] ?? Number.NaN;
}

function quotient(ours: number, theirs: number, value: Measure['value']): number {
  return value === 'peer/sluice' ? theirs / ours : ours / theirs;
}

function verdict(value: number, better: Measure['better'], must: number | null, aim: number | null): Line['met'] {
  const reaches = (bound: number | null): boolean => bound !== null && (better === 'higher' ? value >= bound : value <= bound);
  if (must === null && aim === null) return null;
  if (reaches(aim)) return 'aim';
  return reaches(must) ? 'must' : 'no';
}

/** One figure of one side in each repeat; null where there is none. */
function series(samples: Samples, path: string): number[] | null {
  const [side = '', figure = ''] = path.split('.');
  const values = (samples[side] ?? []).map((figures) => figures[figure] ?? Number.NaN);
  return values.length === 0 || values.some(Number.isNaN) ? null : values;
}

/** `together` is in the median's place, where there is one. */
export function spread(values: readonly number[], together = Number.NaN): Spread {
  return { min: Math.min(...values), median: Number.isNaN(together) ? percentile(values, 0.5) : together, max: Math.max(...values) };
}

/** Medians of every figure of every side. */
export function medians(samples: Samples): Record<string, number | null> {
  const names = Object.entries(samples).flatMap(([side, repeats]) => Object.keys(repeats[0] ?? {}).map((figure) => `${side}.${figure}`));
  return Object.fromEntries(
    names.map((name) => {
      const values = series(samples, name);
      return [name, values === null ? null : spread(values).median];
    }),
  );
}

const HEAD = ['#', 'measure', 'Sluice', 'peer', 'ratio', 'must', 'aim', 'met'];

function cells({ number, measure, sluice, peer, ratio, better, must, aim, met }: Line): string[] {
  const bound = (value: number | null): string => (value === null ? '–' : `${better === 'higher' ? '≥' : '≤'} ${value}`);
  const shown = [sluice, peer, ratio].map((one) => (one === null ? '–' : range(one)));
  return [number, measure, ...shown, bound(must), bound(aim), met ?? '–'];
}

/** Median, with the least and the most where they differ. */
export function range({ min, median, max }: Spread): string {
  return min === max ? number(median) : `${number(median)} (${number(min)}–${number(max)})`;
}

function number(value: number): string {
  return rounded(value, Math.abs(value) >= 1_000 ? 4 : 3).toLocaleString('en-US', { maximumFractionDigits: 4 });
}

/** For a terminal. */
export function asText(run: TableRun): string {
  return `${[described(run), ...run.left_out, '', linesAsText(run.table)].join('\n')}\n`;
}

/** The same, of some of its lines alone. */
export function linesAsText(lines: readonly Line[]): string {
  return aligned([HEAD, ...lines.map(cells)]);
}

/** Columns one below the other; the first row has as many as any. */
export function aligned(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const padded = rows.map((row) => row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  '));
  return padded.map((line) => line.trimEnd()).join('\n');
}

/** For README.md. */
export function asMarkdown(run: TableRun): string {
  const row = (columns: readonly string[]): string => `| ${columns.join(' | ')} |`;
  const lines = [row(HEAD), row(HEAD.map(() => '---')), ...run.table.map((line) => row(cells(line)))];
  return [...lines, '', [described(run), ...run.left_out].join('. ').concat('.')].join('\n');
}

function described({ cores, cpu, load, node, redis, commit, date, repeats, callback_threads: threads, versions, table }: TableRun): string {
  const peers = Object.entries(versions).map(([name, version]) => `${name} ${version}`);
  const machine = `${cores} cores, ${cpu}, load ${load.toFixed(1)} at the start; Node ${node}, Redis ${redis}, ${peers.join(', ')}`;
  const server = threads === undefined ? '' : `; ${threads} callback ${threads === 1 ? 'thread' : 'threads'}`;
  const numbers = new Set(table.filter(({ together }) => together).map(({ number }) => `#${number}`));
  const together = numbers.size === 0 ? '' : `, of ${[...numbers].join(', ')} instead of the median what all repeats together give`;
  return `${date.slice(0, 10)}, commit ${commit}; ${machine}${server}; ${repeats} ${repeats === 1 ? 'repeat' : 'repeats'} in turns: median (least–most)${together}`;
}
