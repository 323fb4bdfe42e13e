// Benches in their small size: that they run, count right and are judged, never that anything is fast.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { TableRun } from '../../bench/table/judge.ts';
import { chosenRows } from '../../bench/table/rows.ts';

/** A machine may be several times slower than those that the sizes were chosen on. */
const TIME_MS_MAX = 280_000;
const ENTRY = process.env['TEST_DIST'] === undefined ? 'src/main.ts' : `${process.env['TEST_DIST']}/main.js`;

/** One of the programs in `bench/`; what it prints is one JSON text. */
export async function runBench(file: string, ...args: string[]): Promise<unknown> {
  const all = ['--import', 'tsx', `bench/${file}.ts`, '--json', '--engine', ENTRY, ...args];
  const { stdout } = await promisify(execFile)(process.execPath, all, { timeout: TIME_MS_MAX });
  return JSON.parse(stdout);
}

export async function smokeRun(rows: readonly string[]): Promise<TableRun> {
  return (await runBench('table', '--smoke', ...rows)) as TableRun;
}

/** Every row ran, every measure has its line, every figure is a finite number. */
export function assertComplete(run: TableRun, names: readonly string[]): void {
  assert.deepEqual(Object.keys(run.figures).toSorted(), names.toSorted());
  const lines = new Set(run.table.map(({ measure }) => measure));
  const measures = chosenRows(names).flatMap((row) => row.measures.map(({ measure }) => measure));
  // Those need PostgreSQL, or a million tasks.
  const missing = measures.filter((measure) => !lines.has(measure) && !/graphile|,000,000/.test(measure));
  assert.deepEqual(missing, []);
  assertFigures(run.figures);
}

export function assertFigures(rows: Record<string, Record<string, number | null>>): void {
  for (const [row, figures] of Object.entries(rows)) {
    for (const [figure, value] of Object.entries(figures)) {
      // Where the system does not tell what a process used.
      if (value === null && /cpu|_us$/.test(figure) && process.platform !== 'linux') continue;
      assert.ok(typeof value === 'number' && Number.isFinite(value), `${row}: ${figure} is ${value}`);
    }
  }
}
