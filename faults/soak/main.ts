// A soak: two engines and a Redis under load, one fault after another.
//
//   node --import tsx faults/soak/main.ts [--minutes N] [--seed N]
//
// Says what it does, and in the end what came of it, as JSON; a line is appended to faults/results.jsonl. The exit code is 1 where
// something did not hold.
import { execFileSync, fork } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { appendFileSync, createWriteStream, existsSync, mkdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { describeMachine } from '../../bench/lib/report.ts';
import type { Soaked } from './soak.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const LOGS = `${ROOT}.make/faults`;
const RESULTS = `${ROOT}faults/results.jsonl`;
/** Beside its minutes: the start, what has to end, and the last books. */
const MORE_MS_MAX = 300_000;

const { values } = parseArgs({ options: { minutes: { type: 'string', default: '20' }, seed: { type: 'string' } } });
const minutes = Number(values.minutes);
if (!(minutes >= 1)) throw new Error('A soak takes at least a minute.');
if (!existsSync(`${ROOT}dist/main.js`)) throw new Error('There is no dist: run "make build" first.');
mkdirSync(LOGS, { recursive: true });

const seed = values.seed === undefined ? randomInt(1_000_000) : Number(values.seed);
const version = /v=(\S+)/.exec(execFileSync('redis-server', ['--version'], { encoding: 'utf8' }))?.[1] ?? 'unknown';
const machine = describeMachine(version);
console.log(`${machine.cores} cores; Node ${machine.node}, Redis ${machine.redis}; ${machine.commit}, ${machine.date}; seed ${seed}`);

const log = createWriteStream(`${LOGS}/soak.log`);
const child = fork(fileURLToPath(new URL('./soak.process.ts', import.meta.url)), [String(minutes), String(seed)], {
  cwd: ROOT,
  env: { ...process.env, TEST_DIST: 'dist' },
  stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
});
child.stdout?.pipe(log);
child.stderr?.pipe(log);
// By SIGTERM it ends what it has started.
const timer = setTimeout(() => child.kill('SIGTERM'), minutes * 60_000 + MORE_MS_MAX);
let said: Soaked | { broken: string } = { broken: 'it ended without a word' };
child.on('message', (message: { line?: string; result?: typeof said }) => {
  if (message.line !== undefined) console.log(message.line);
  if (message.result !== undefined) said = message.result;
});
child.once('exit', () => {
  clearTimeout(timer);
  console.log(JSON.stringify(said, null, 2));
  appendFileSync(RESULTS, `${JSON.stringify({ ...machine, soak: said })}\n`);
  const held = 'faults' in said && said.faults.length === 0;
  console.log(held ? 'held' : 'FAILED');
  if (!held) process.exitCode = 1;
});
