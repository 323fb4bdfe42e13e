// Sluice with everything on that is on by default, beside its peers and the bare parts, in turns in one run on one machine: one
// table of ratios.
//
//   node --import tsx bench/table.ts [--smoke] [--json] [--repeats N] [--engine FILE] [row …]
//
//   --smoke      seconds, small numbers, one repeat, without PostgreSQL; nothing is recorded
//   --json       one line of JSON instead of the table
//   --repeats    of each side of each row; default 5
//   --engine     what to start; default dist/main.js. A .ts file runs through tsx
//   row …        only these, by name; nothing is recorded then
//
// A full run appends one line to bench/results.jsonl, from which scripts/gen-readme.ts writes the table of README.md. What a row
// found is told as it ends, so that a later one that fails does not take it along.
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { BareRedis } from './lib/bare-redis.ts';
import type { Figures } from './lib/bench.ts';
import { cpuByProcess, cpuSince } from './lib/process.ts';
import { Receiver } from './lib/receiver.ts';
import { describeMachine, record } from './lib/report.ts';
import { asText, type Cpu, judge, linesAsText, medians, type Samples, type TableRun, type Together } from './table/judge.ts';
import { CALLBACK_THREADS, type Ground, type Row, type Side, startStage } from './table/row.ts';
import { chosenRows, ROWS } from './table/rows.ts';

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      smoke: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
      repeats: { type: 'string', default: '5' },
      engine: { type: 'string', default: fileURLToPath(new URL('../dist/main.js', import.meta.url)) },
    },
  });
  const { smoke, engine: entry } = values;
  const repeats = smoke ? 1 : Number(values.repeats);
  if (!(Number.isInteger(repeats) && repeats > 0)) throw new Error('--repeats is a whole number from 1.');
  const rows = chosenRows(positionals);
  if (!existsSync(entry)) throw new Error(`There is no ${entry}: run "make build" first.`);

  const cpu_s: Record<string, Cpu> = {};
  const run: TableRun = {
    ...describeMachine(await redisVersion()),
    ...{ smoke, repeats, callback_threads: CALLBACK_THREADS, versions: peerVersions(), table: [], figures: {}, cpu_s, left_out: [] },
  };
  const receiver = await Receiver.start();
  const shared = smoke ? await startStage({ entry, receiver, smoke }) : null;
  const ground: Ground = { entry, receiver, smoke, ...(shared === null ? {} : { shared }) };
  try {
    const tell = (text: string): unknown => values.json || process.stderr.write(`${text}\n`);
    for (const row of rows) {
      const from_ms = performance.now();
      tell(`${row.name}: ${row.what}`);
      const { samples, together, used } = await measure(row, ground, repeats, run.left_out);
      const lines = judge(row, samples, together);
      run.table.push(...lines);
      run.figures[row.name] = medians(samples);
      cpu_s[row.name] = used;
      tell(linesAsText(lines));
      tell(`  ${((performance.now() - from_ms) / 1_000).toFixed(1)} s`);
    }
    process.stdout.write(values.json ? `${JSON.stringify(run)}\n` : asText(run));
    if (!smoke && rows === ROWS) record(run);
  } finally {
    await shared?.stop();
    await receiver.stop();
  }
}

/** Every side once, in turns: A B C, B C A, … so that none is always the one after a certain other. */
async function measure(row: Row, ground: Ground, repeats: number, left_out: string[]): Promise<Measured> {
  const sides: [string, Side][] = [];
  const samples: Record<string, Figures[]> = {};
  const used: Cpu = {};
  try {
    sides.push(['sluice', await row.sluice(ground)]);
    for (const [name, start] of Object.entries(row.peers)) {
      const peer = await start(ground);
      if (typeof peer === 'string') left_out.push(peer);
      else sides.push([name, peer]);
    }
    for (let repeat = 0; repeat < repeats; repeat++) {
      const first = repeat % sides.length;
      for (const [name, side] of [...sides.slice(first), ...sides.slice(0, first)]) {
        const before = cpuByProcess();
        const figures = await side.once();
        used[name] = sum(used[name] ?? {}, cpuSince(before));
        samples[name] = [...(samples[name] ?? []), figures];
      }
    }
    const together = Object.fromEntries(sides.flatMap(([name, side]) => (side.together ? [[name, side.together()]] : [])));
    return { samples, together, used };
  } finally {
    for (const [, side] of sides) await side.close();
  }
}

function sum(a: Record<string, number>, b: Record<string, number>): Record<string, number> {
  return Object.fromEntries([...new Set([...Object.keys(a), ...Object.keys(b)])].map((name) => [name, (a[name] ?? 0) + (b[name] ?? 0)]));
}

interface Measured {
  samples: Samples;
  together: Together;
  used: Cpu;
}

/** Of the peers that bench/peers pins. */
function peerVersions(): Record<string, string> {
  const text = readFileSync(new URL('./peers/package.json', import.meta.url), 'utf8');
  const { dependencies } = JSON.parse(text) as { dependencies: Record<string, string> };
  const named = {
    BullMQ: 'bullmq',
    'graphile-worker': 'graphile-worker',
    Fastify: 'fastify',
    'rate-limiter-flexible': 'rate-limiter-flexible',
  };
  return Object.fromEntries(Object.entries(named).map(([name, library]) => [name, dependencies[library] ?? 'unknown']));
}

async function redisVersion(): Promise<string> {
  const server = await BareRedis.start();
  const version = await server.version();
  await server.stop();
  return version;
}

await main();
