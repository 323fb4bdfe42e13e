// What the engine reaches on this machine, beside bare parts measured in the same run.
//
//   node --import tsx bench/main.ts [--smoke] [--json] [--record] [--repeats N] [--engine FILE] [--engine-args=ARGS] [bench …]
//
//   --smoke         seconds, small numbers; nothing is recorded
//   --repeats       of each bench that does not repeat its work itself, in turns; default 5, of the small size 1. Medians are told, with the least and the most
//   --json          one line of JSON instead of the table
//   --engine        what to start; default dist/main.js. A .ts file runs through tsx
//   --engine-args   for its node, such as --engine-args="--cpu-prof --cpu-prof-dir=/tmp/prof"
//   bench …         only these, by name; nothing is recorded then
//   --record        but with this
//
// What is recorded is a line in bench/results.jsonl.
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { clientSize } from './client-size.ts';
import { createBatches, createSingles } from './create.ts';
import { endToEnd } from './end-to-end.ts';
import { firstCallbackBench } from './first-callback.ts';
import { guarantees } from './guarantees.ts';
import { idle } from './idle.ts';
import { intake } from './intake.ts';
import { latency, lateness } from './latency.ts';
import { Api } from './lib/api.ts';
import type { Bench, Figures, Stage } from './lib/bench.ts';
import { Engine } from './lib/engine.ts';
import { cpuByProcess, cpuSince } from './lib/process.ts';
import { Receiver } from './lib/receiver.ts';
import { describeMachine, type Ranges, record, table } from './lib/report.ts';
import { median } from './lib/stats.ts';
import { limiterMillion, limiterShare, limiterWaiting } from './limiter-rates.ts';
import { limiterGrants } from './limiters.ts';
import { listPage } from './list.ts';
import { luaCost } from './lua-cost.ts';
import { mixed } from './mixed.ts';
import { notifications } from './notifications.ts';
import { readBatch } from './read.ts';
import { scheduleCost, scheduleLateness } from './schedules.ts';
import { flood, scaleOut, takeover } from './shared.ts';
import { streams } from './streams.ts';

/** In this order: what is parked or kept by one does not stand in the way of the next. */
const BENCHES: readonly Bench[] = [
  endToEnd,
  latency,
  lateness,
  notifications,
  streams,
  readBatch,
  mixed,
  idle,
  luaCost,
  limiterGrants,
  limiterShare,
  limiterWaiting,
  limiterMillion,
  createBatches,
  createSingles,
  intake,
  scheduleLateness,
  scheduleCost,
  guarantees,
  scaleOut,
  flood,
  takeover,
  listPage,
  clientSize,
  firstCallbackBench,
];

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      smoke: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
      record: { type: 'boolean', default: false },
      repeats: { type: 'string' },
      engine: { type: 'string', default: fileURLToPath(new URL('../dist/main.js', import.meta.url)) },
      'engine-args': { type: 'string', default: '' },
    },
  });
  const chosen = positionals.length === 0 ? BENCHES : BENCHES.filter(({ name }) => positionals.includes(name));
  if (chosen.length < positionals.length) throw new Error(`The benches are: ${BENCHES.map(({ name }) => name).join(', ')}.`);
  if (!existsSync(values.engine)) throw new Error(`There is no ${values.engine}: run "make build" first.`);

  const repeats = Number(values.repeats ?? (values.smoke ? 1 : 5));
  if (!(Number.isInteger(repeats) && repeats > 0)) throw new Error('--repeats is a whole number from 1.');
  const node_args = values['engine-args'].split(' ').filter((arg) => arg !== '');
  const receiver = await Receiver.start();
  const engine = await Engine.start({ entry: values.engine, node_args });
  const api = new Api(engine, { patient: values.smoke });
  try {
    const machine = describeMachine(await engine.redis_version());
    const stage = { engine, entry: values.engine, receiver, api, smoke: values.smoke };
    const { results, ...more } = summary(await runAll(chosen, stage, repeats, !values.json));
    const line = { ...machine, smoke: values.smoke, results, ...more };
    process.stdout.write(values.json ? `${JSON.stringify(line)}\n` : table(machine, chosen, results, more.ranges));
    if (!values.smoke && (chosen === BENCHES || values.record)) record(line);
  } finally {
    await api.close();
    await engine.stop();
    await receiver.stop();
  }
}

/** What a bench found, and the CPU seconds that each process used for it. */
interface Repeat {
  figures: Figures;
  cpu_s: Record<string, number>;
}

/** All of them once, and again. */
async function runAll(chosen: readonly Bench[], stage: Stage, repeats: number, talk: boolean): Promise<Map<string, Repeat[]>> {
  const done = new Map<string, Repeat[]>(chosen.map(({ name }) => [name, []]));
  for (let repeat = 0; repeat < repeats; repeat++) {
    for (const { name, run } of chosen.filter(({ once }) => repeat === 0 || once !== true)) {
      const [from_ms, before] = [performance.now(), cpuByProcess()];
      try {
        done.get(name)?.push({ figures: await run(stage), cpu_s: cpuSince(before) });
      } catch (error) {
        // The others took long enough to be kept.
        process.stderr.write(`${name} failed: ${error instanceof Error ? error.stack : String(error)}\n`);
        process.exitCode = 1;
        continue;
      }
      if (talk) process.stderr.write(`${name}: ${((performance.now() - from_ms) / 1000).toFixed(1)} s\n`);
    }
  }
  return done;
}

/** Of these figures the worst of all repeats is told. */
const WORST = /(_most|_max_ms|worst_s)$/;

/** Medians; of what was repeated how often, the least and the most; and the CPU of the last time, of all that ran meanwhile. */
function summary(done: ReadonlyMap<string, readonly Repeat[]>) {
  const results: Record<string, Figures> = {};
  const ranges: Ranges = {};
  const cpu_s: Record<string, Record<string, number>> = {};
  const repeated: Record<string, number> = {};
  for (const [name, repeats] of done) {
    const last = repeats.at(-1);
    if (last === undefined) continue;
    repeated[name] = repeats.length;
    cpu_s[name] = last.cpu_s;
    results[name] = {};
    for (const figure of Object.keys(last.figures)) {
      const values = repeats.map(({ figures }) => figures[figure] ?? Number.NaN);
      const told = !values.some(Number.isNaN);
      results[name][figure] = told ? (WORST.test(figure) ? Math.max(...values) : median(values)) : null;
      if (told && values.length > 1) ranges[name] = { ...ranges[name], [figure]: [Math.min(...values), Math.max(...values)] };
    }
  }
  return { results, repeated, ranges, cpu_s };
}

await main();
