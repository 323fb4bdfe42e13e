// The model of bench/model: that it keeps its own laws, and that it is as near to the recorded runs as docs/scaling.md says.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { calibrate } from '../../bench/model/calibrate.ts';
import { ceilings, indivisible, keptBytes } from '../../bench/model/capacity.ts';
import { readCosts } from '../../bench/model/costs.ts';
import { type Parts, simulate } from '../../bench/model/simulate.ts';
import { generate } from '../../scripts/gen-scaling.ts';

const PARTS: Parts = {
  ...{ task_engine_us: 30, task_redis_us: 8, turn_engine_us: 100, turn_redis_us: 80, wake_us: 20 },
  ...{ round_trip_us: 100, call_us: 500 },
};
/** One recorded run, so that this says something about the model and not about the last machine that measured. */
const RECORDED = '73eb2e1';
const recorded =
  readFileSync('bench/results.jsonl', 'utf8')
    .split('\n')
    .find((line) => line.includes(`"commit":"${RECORDED}"`)) ?? '';
const costs = readCosts(recorded);
const model = calibrate(costs);

test('runs that were not given to the model are met within a fifth, and those that were within a twentieth', () => {
  assert.ok(model.fits.filter(({ given }) => !given).length >= 3);
  for (const { name, error, given } of model.fits) assert.ok(Math.abs(error) < (given ? 0.05 : 0.2), `${name}: ${error}`);
});

test('every task is settled, also where they are fewer than partitions, and a second run is the same', () => {
  const deployment = { threads: 3, masters: 2, partitions: 16 };
  for (const tasks of [1, 5, 1_000]) {
    const run = simulate(PARTS, deployment, { tasks, per_s: 500 });
    assert.ok(run.turns_a_task > 0 && run.took_s > 0);
    assert.deepEqual(simulate(PARTS, deployment, { tasks, per_s: 500 }), run);
  }
});

test('no machine is busier than all the time, and one that could not be is the bottleneck', () => {
  const run = simulate(PARTS, { threads: 1, masters: 1, partitions: 16 }, { tasks: 20_000, per_s: null });
  assert.ok(run.busiest_thread <= 1.0001 && run.busiest_master <= 1.0001);
  assert.ok(run.busiest_thread > 0.75, `the thread was busy ${run.busiest_thread}`);
  // A thread can do no more than its tasks cost, whatever its turns do.
  assert.ok(run.tasks_per_s < 1e6 / PARTS.task_engine_us);
  const slow = simulate({ ...PARTS, task_redis_us: 200 }, { threads: 4, masters: 1, partitions: 16 }, { tasks: 20_000, per_s: null });
  assert.ok(slow.busiest_master > 0.95 && slow.tasks_per_s < 1e6 / 200);
});

test('where work waits turns fill, and where it is spread over more threads they are shared less', () => {
  const full = simulate(PARTS, { threads: 1, masters: 1, partitions: 16 }, { tasks: 20_000, per_s: null });
  const alone = simulate(PARTS, { threads: 1, masters: 1, partitions: 16 }, { tasks: 2_000, per_s: 2_000 });
  const spread = simulate(PARTS, { threads: 4, masters: 1, partitions: 16 }, { tasks: 2_000, per_s: 2_000 });
  assert.ok(full.turns_a_task < 0.1, `${full.turns_a_task} turns a task`);
  assert.ok(alone.turns_a_task > 0.5);
  assert.ok(spread.wakes_a_task > alone.wakes_a_task);
});

test('one hot partition takes no more threads than one', () => {
  const few = simulate(PARTS, { threads: 1, masters: 1, partitions: 64 }, { tasks: 10_000, per_s: null, hot_share: 1 });
  const many = simulate(PARTS, { threads: 64, masters: 1, partitions: 64 }, { tasks: 10_000, per_s: null, hot_share: 1 });
  const even = simulate(PARTS, { threads: 64, masters: 8, partitions: 64 }, { tasks: 10_000, per_s: null });
  assert.ok(Math.abs(many.tasks_per_s / few.tasks_per_s - 1) < 0.01);
  assert.ok(even.tasks_per_s > 5 * many.tasks_per_s);
});

test('ceilings grow with what they are of, and with nothing else', () => {
  const of = (part: string, cluster: object): number => {
    const all = ceilings(costs, model.parts, { nodes: 2, threads_per_node: 2, masters: 2, partitions: 64, ...cluster }, model.fill);
    return all.find((one) => one.part === part)?.tasks_per_s ?? Number.NaN;
  };
  assert.ok(Math.abs(of('Redis masters', { masters: 4 }) / of('Redis masters', {}) - 2) < 1e-9);
  assert.equal(of('Redis masters', { nodes: 9 }), of('Redis masters', {}));
  assert.ok(of('callback threads', { nodes: 4 }) > of('callback threads', {}));
  // More threads than partitions have nothing to do.
  assert.equal(of('callback threads', { nodes: 100 }), of('callback threads', { nodes: 200 }));
  for (const { tasks_per_s } of indivisible(costs, model.parts)) assert.ok(tasks_per_s > 0 && Number.isFinite(tasks_per_s));
  assert.equal(keptBytes(costs, 10, 60), 600 * costs.waiting_bytes);
});

test('runs that tell servers just started from others, and Redis from Node, are read so', () => {
  const line = JSON.parse(recorded) as {
    results: Record<string, object>;
  };
  const scale_out = {
    cpu_us_1_processes_1_masters: 900,
    warm_cpu_us_1_processes_1_masters: 300,
    warm_redis_cpu_us_1_processes_1_masters: 100,
  };
  const read = readCosts(JSON.stringify({ ...line, smoke: false, results: { ...line.results, scale_out } }));
  assert.deepEqual([read.warm, read.scale_out], [true, [{ processes: 1, masters: 1, engine_us: 200, redis_us: 100 }]]);
  assert.throws(() => readCosts(JSON.stringify({ ...line, smoke: true })), /no full run/);
});

test('docs/scaling.md says what the runs do', () => {
  assert.equal(generate(), readFileSync('docs/scaling.md', 'utf8'));
});
