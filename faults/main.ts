// The fault matrix against real processes, fault by fault.
//
//   node --import tsx faults/main.ts [--row N] [--seed N] [--quick]
//
//   --row     only this row: 6, or one of its faults, as in "6 cluster strict"
//   --seed    what the callers send, and when things break, follows from it. A run says its own
//   --quick   fewer tasks and shorter timers, as in the tests; nothing is recorded
//
// What is not quick appends a line to faults/results.jsonl. The exit code is 1 where something did not hold.
import { execFileSync, fork } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { createWriteStream, existsSync, mkdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { describeMachine } from '../bench/lib/report.ts';
import { type Fault, titleOf } from './lib/fault.ts';
import { header, held, line, type Outcome, type Run, record, remarks } from './lib/outcome.ts';
import { FAULTS, ROWS } from './matrix.ts';

const FAULT_MS_MAX = 600_000;
const ROOT = fileURLToPath(new URL('../', import.meta.url));
const LOGS = `${ROOT}.make/faults`;

const { values } = parseArgs({
  options: { row: { type: 'string' }, seed: { type: 'string' }, quick: { type: 'boolean', default: false } },
});
const { row } = values;
const chosen = row === undefined ? FAULTS : FAULTS.filter((fault) => titleOf(fault) === row || String(fault.row) === row);
if (chosen.length === 0) throw new Error(`No fault is called ${row}: there are ${FAULTS.map(titleOf).join(', ')}.`);
if (!existsSync(`${ROOT}dist/main.js`)) throw new Error('There is no dist: run "make build" first.');
mkdirSync(LOGS, { recursive: true });

const seed = values.seed === undefined ? randomInt(1_000_000) : Number(values.seed);
const machine = describeMachine(redisVersion());
console.log(
  `${machine.cores} cores, ${machine.cpu}; Node ${machine.node}, Redis ${machine.redis}; ${machine.commit}, ${machine.date}; seed ${seed}\n`,
);
console.log(header());
const runs: Run[] = [];
for (const fault of chosen) {
  const outcome = await run(fault);
  runs.push({ fault, seed, outcome });
  console.log(line(fault, outcome));
  if (outcome.kind === 'judged') console.log(`${' '.repeat(24)}${remarks(outcome.judgement)}`);
}
tell();

/** In a process of its own, whose output goes to a file. */
function run(fault: Fault): Promise<Outcome> {
  const title = titleOf(fault);
  const log = createWriteStream(`${LOGS}/${title.replaceAll(/\W+/g, '-')}.log`);
  const args = [title, String(seed), ...(values.quick ? ['quick'] : [])];
  const child = fork(fileURLToPath(new URL('./lib/fault.process.ts', import.meta.url)), args, {
    cwd: ROOT,
    env: { ...process.env, TEST_DIST: 'dist' },
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  });
  child.stdout?.pipe(log);
  child.stderr?.pipe(log);
  // By SIGTERM it ends what it has started.
  const timer = setTimeout(() => child.kill('SIGTERM'), FAULT_MS_MAX);
  return new Promise((resolve) => {
    let said: Outcome | null = null;
    child.on('message', (outcome) => {
      said = outcome as Outcome;
    });
    child.once('exit', (code, signal) => {
      clearTimeout(timer);
      resolve(said ?? { kind: 'broken', why: `it ended without a word (${signal ?? code})` });
    });
  });
}

function redisVersion(): string {
  return /v=(\S+)/.exec(execFileSync('redis-server', ['--version'], { encoding: 'utf8' }))?.[1] ?? 'unknown';
}

function tell(): void {
  const count = (kind: Outcome['kind']): number => runs.filter(({ outcome }) => outcome.kind === kind).length;
  const good = runs.filter(({ outcome }) => held(outcome)).length;
  console.log(
    `\n${good} of ${runs.length} held, ${count('judged') - good} failed, ${count('broken')} broke, ${count('not_here')} cannot be run here.`,
  );
  if (row === undefined) {
    const missing = ROWS.flatMap((what, i) => (FAULTS.some((fault) => fault.row === i + 1) ? [] : [`${i + 1} (${what})`]));
    if (missing.length > 0) console.log(`Not built: ${missing.join(', ')}.`);
  }
  if (!values.quick) record(machine, runs);
  for (const { fault, outcome } of runs) {
    if (outcome.kind === 'broken') console.log(`\n${titleOf(fault)}: ${outcome.why}`);
    if (outcome.kind === 'judged' && outcome.judgement.faults.length > 0)
      console.log(`\n${titleOf(fault)}: ${outcome.judgement.faults.join('\n')}`);
  }
  if (good + count('not_here') < runs.length) process.exitCode = 1;
}
