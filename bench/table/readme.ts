// The table in README.md: from the last full run, between two markers.
import { asMarkdown, type TableRun } from './judge.ts';

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
