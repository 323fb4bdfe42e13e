// Writes into docs/scaling.md what runs in bench/results.jsonl say: what guarantees cost, what scripts cost, and what the model makes of it.
// Only what stands between marks; a row that no full run has yet says so. With --check, only says whether it is stale.
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { type Run, recordedRuns } from '../bench/lib/recorded.ts';
import { modelText, table } from '../bench/model/report.ts';

const PATH = fileURLToPath(new URL('../docs/scaling.md', import.meta.url));
const RESULTS = new URL('../bench/results.jsonl', import.meta.url);

type Figures = Record<string, number | null>;
/** The names of the differences, and what they are of. */
const GUARANTEES: readonly (readonly [name: string, what: string])[] = [
  ['plain', 'a task with all that is on by default'],
  ['signature', 'signing: one signature more'],
  ['guard', 'egress guard'],
  ['on_finish', 'notification `on_finish`, of batches of 1,000'],
  ['on_progress', 'notification `on_progress`, of each task'],
  ['limiter_window', 'limiter `window`'],
  ['limiter_bucket', 'limiter `bucket`'],
  ['limiter_leaky', 'limiter `leaky`'],
  ['limiter_points', 'limiter `points`'],
  ['limiter_concurrent', 'limiter `concurrent`'],
  ['replica', 'a replica (its own CPU too)'],
  ['replicated', '`SLUICE_DURABILITY=replicated`, beyond the replica'],
  ['metrics_scrape', '`/metrics` read each second'],
];
const SIZES = [10, 100, 1_000];

function lastWith(row: string): { run: Run; figures: Figures } | null {
  const run = recordedRuns(readFileSync(RESULTS, 'utf8')).findLast(({ results }) => results?.[row] !== undefined);
  const figures = run?.results?.[row];
  return run === undefined || figures === undefined ? null : { run, figures };
}

const NOT_YET = 'No full run has measured this yet: `make bench` does.';

function guaranteesText(): string {
  const found = lastWith('guarantees');
  if (found === null) return NOT_YET;
  const { figures, run } = found;
  const cell = (name: string): string => (figures[name] == null ? '–' : figures[name].toFixed(1));
  const rows = GUARANTEES.map(([name, what]) => [what, ...['engine', 'redis', 'spread'].map((part) => cell(`${name}_${part}_us`))]);
  rows.splice(2, 0, [
    `leases: ${(figures['lease_commands'] ?? Number.NaN).toFixed(3)} commands a task, by profile`,
    '–',
    (figures['lease_redis_us'] ?? Number.NaN).toFixed(2),
    '–',
  ]);
  return `${table(['CPU of a task, µs', 'Node', 'Redis', 'spread'], rows)}\n\nThe first line is all of it, the others are added to that. Spread: how far the turns of the run were apart; what is smaller is noise. ${of(run)}`;
}

function scriptsText(): string {
  const found = lastWith('lua_cost');
  if (found === null) return NOT_YET;
  const { figures, run } = found;
  const names = Object.keys(figures).flatMap((name) => /^(.*)_10_us_a_call$/.exec(name)?.slice(1, 2) ?? []);
  const cell = (name: string, size: number): string => {
    const [call, task] = [figures[`${name}_${size}_us_a_call`], figures[`${name}_${size}_us_a_task`]];
    return call == null || task == null ? '–' : `${Math.round(call)} / ${task.toPrecision(2)}`;
  };
  const rows = names.map((name) => [name.replaceAll('_', ' '), ...SIZES.map((size) => cell(name, size))]);
  return `${table(['Redis CPU, µs a call / a task', ...SIZES.map((size) => `${size.toLocaleString('en-US')} tasks`)], rows)}\n\n${of(run)}`;
}

function of({ date, cpu, cores }: Run): string {
  return `${cpu}, ${cores} cores, ${date.slice(0, 10)}.`;
}

const TEXTS: Record<string, () => string> = { guarantees: guaranteesText, scripts: scriptsText, model: modelText };

/** The page with what stands between its marks made anew. */
export function generate(page = readFileSync(PATH, 'utf8')): string {
  return Object.entries(TEXTS).reduce((text, [name, make]) => {
    const [begin, end] = [`<!-- made by scripts/gen-scaling.ts: ${name} -->\n`, '<!-- until here -->'];
    const from = text.indexOf(begin);
    const to = text.indexOf(end, from);
    if (from === -1 || to === -1) throw new Error(`docs/scaling.md has no marks for "${name}".`);
    return `${text.slice(0, from + begin.length)}\n${make().trim()}\n\n${text.slice(to)}`;
  }, page);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const text = generate();
  if (!process.argv.includes('--check')) writeFileSync(PATH, text);
  else if (readFileSync(PATH, 'utf8') !== text) {
    console.error(`${PATH} is stale: run scripts/gen-scaling.ts`);
    process.exitCode = 1;
  }
}
