// Writes the table of figures into README.md, between its markers, from the last full run of `make bench/table` in
// bench/results.jsonl: nobody copies a figure by hand.
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { asMarkdown, type TableRun } from '../bench/table/judge.ts';

const README = fileURLToPath(new URL('../README.md', import.meta.url));
const RESULTS = new URL('../bench/results.jsonl', import.meta.url);
const BEGIN = '<!-- The table of make bench/table, by make gen -->';
const END = '<!-- end of the table -->';

/** README.md with the table of the last run; as it is where there is no run yet. */
export function withTable(readme: string, results: string): string {
  const runs = results
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Partial<TableRun>);
  const run = runs.findLast((one): one is TableRun => one.table !== undefined && one.smoke === false);
  const [from, to] = [readme.indexOf(BEGIN), readme.indexOf(END)];
  if (from < 0 || to < from) throw new Error('README.md has lost the markers of the table.');
  const table = run === undefined ? 'Not measured yet.' : asMarkdown(run);
  return `${readme.slice(0, from + BEGIN.length)}\n\n${table}\n\n${readme.slice(to)}`;
}

const before = readFileSync(README, 'utf8');
const after = withTable(before, readFileSync(RESULTS, 'utf8'));
if (after !== before) writeFileSync(README, after);
