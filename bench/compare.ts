// Two commits beside one another: rows of the table, Sluice's side only, this tree's bench against both builds, in turns.
//
//   node --import tsx bench/compare.ts --base REV [--repeats N] [--smoke] [row …]
//
// REV is checked out into a temporary worktree and built there, with these node_modules where its package-lock.json is the
// same and with its own elsewhere. This tree's side is dist/, as it was built last.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import type { Figures } from './lib/bench.ts';
import { Receiver } from './lib/receiver.ts';
import { aligned, range, spread } from './table/judge.ts';
import type { Row, Side } from './table/row.ts';
import { chosenRows } from './table/rows.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const HEAD = ['row', 'figure', 'base', 'here', 'here ÷ base'];

type Builds = Record<'base' | 'here', string>;

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      base: { type: 'string' },
      repeats: { type: 'string', default: '5' },
      smoke: { type: 'boolean', default: false },
    },
  });
  if (values.base === undefined) throw new Error('--base names the commit to compare with.');
  const rows = chosenRows(positionals);
  const dir = mkdtempSync(join(tmpdir(), 'sluice-compare-'));
  const tree = join(dir, 'base');
  process.once('exit', () => remove(dir, tree));
  const builds = { base: build(tree, values.base), here: join(ROOT, 'dist/main.js') };
  if (!existsSync(builds.here)) throw new Error('There is no dist/main.js: run "make build" first.');
  const receiver = await Receiver.start();
  try {
    const lines = [HEAD];
    for (const row of rows) {
      process.stderr.write(`${row.name}: ${row.what}\n`);
      lines.push(...(await compare(row, builds, receiver, Number(values.repeats), values.smoke)));
    }
    process.stdout.write(`${aligned(lines)}\n`);
  } finally {
    await receiver.stop();
  }
}

/** dist/main.js of that commit. */
function build(tree: string, base: string): string {
  const run = (command: string, args: readonly string[], cwd: string): void => {
    // What is said on the way is not the answer.
    execFileSync(command, args, { cwd, stdio: ['ignore', 2, 2] });
  };
  run('git', ['worktree', 'add', '--detach', '--force', tree, base], ROOT);
  const lock = (root: string): string => readFileSync(join(root, 'package-lock.json'), 'utf8');
  // Elsewhere its own make installs them.
  if (lock(tree) === lock(ROOT)) symlinkSync(join(ROOT, 'node_modules'), join(tree, 'node_modules'));
  run('make', ['--no-print-directory', 'build'], tree);
  return join(tree, 'dist/main.js');
}

function remove(dir: string, tree: string): void {
  try {
    execFileSync('git', ['worktree', 'remove', '--force', tree], { cwd: ROOT, stdio: 'ignore' });
  } catch {
    // It was not checked out.
  }
  rmSync(dir, { recursive: true, force: true });
}

/** A B, B A, A B, …; the lines of one row. */
async function compare(row: Row, builds: Builds, receiver: Receiver, repeats: number, smoke: boolean): Promise<string[][]> {
  const names = ['base', 'here'] as const;
  const sides: Partial<Record<keyof Builds, Side>> = {};
  const samples: Record<keyof Builds, Figures[]> = { base: [], here: [] };
  try {
    for (const name of names) sides[name] = await row.sluice({ entry: builds[name], receiver, smoke });
    for (let repeat = 0; repeat < repeats; repeat++) {
      for (const name of repeat % 2 === 0 ? names : names.toReversed()) samples[name].push((await sides[name]?.once()) ?? {});
    }
  } finally {
    for (const side of Object.values(sides)) await side.close();
  }
  return Object.keys(samples.base[0] ?? {}).map((figure) => {
    const of = (name: keyof Builds): number[] => samples[name].map((figures) => figures[figure] ?? Number.NaN);
    const [base, here] = [of('base'), of('here')];
    const ratios = here.map((value, i) => value / (base[i] ?? Number.NaN));
    return [row.name, figure, ...[base, here, ratios].map((values) => range(spread(values)))];
  });
}

await main();
