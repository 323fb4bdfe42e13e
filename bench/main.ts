// What the engine reaches on this machine, beside bare parts measured in the same run.
//
//   node --import tsx bench/main.ts [--smoke] [--json] [--record] [--engine FILE] [--engine-args=ARGS] [bench …]
//
//   --smoke         seconds, small numbers; nothing is recorded
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
import { Receiver } from './lib/receiver.ts';
import { describeMachine, record, table } from './lib/report.ts';
import { limiterMillion, limiterShare, limiterWaiting } from './limiter-rates.ts';
import { limiterGrants } from './limiters.ts';
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
      engine: { type: 'string', default: fileURLToPath(new URL('../dist/main.js', import.meta.url)) },
      'engine-args': { type: 'string', default: '' },
    },
  });
  const chosen = positionals.length === 0 ? BENCHES : BENCHES.filter(({ name }) => positionals.includes(name));
  if (chosen.length < positionals.length) throw new Error(`The benches are: ${BENCHES.map(({ name }) => name).join(', ')}.`);
  if (!existsSync(values.engine)) throw new Error(`There is no ${values.engine}: run "make build" first.`);

  const node_args = values['engine-args'].split(' ').filter((arg) => arg !== '');
  const receiver = await Receiver.start();
  const engine = await Engine.start({ entry: values.engine, node_args });
  const api = new Api(engine, { patient: values.smoke });
  try {
    const machine = describeMachine(await engine.redis_version());
    const results = await runAll(chosen, { engine, entry: values.engine, receiver, api, smoke: values.smoke }, !values.json);
    const line = { ...machine, smoke: values.smoke, results };
    process.stdout.write(values.json ? `${JSON.stringify(line)}\n` : table(machine, chosen, results));
    if (!values.smoke && (chosen === BENCHES || values.record)) record(line);
  } finally {
    await api.close();
    await engine.stop();
    await receiver.stop();
  }
}

async function runAll(chosen: readonly Bench[], stage: Stage, talk: boolean): Promise<Record<string, Figures>> {
  const results: Record<string, Figures> = {};
  for (const bench of chosen) {
    const from_ms = performance.now();
    try {
      results[bench.name] = await bench.run(stage);
    } catch (error) {
      // The others took long enough to be kept.
      process.stderr.write(`${bench.name} failed: ${error instanceof Error ? error.stack : String(error)}\n`);
      process.exitCode = 1;
      continue;
    }
    if (talk) process.stderr.write(`${bench.name}: ${((performance.now() - from_ms) / 1000).toFixed(1)} s\n`);
  }
  return results;
}

await main();
