// What the model says, as tables for docs/scaling.md (scripts/gen-scaling.ts) and for whoever runs it:
//
//   node --import tsx bench/model/report.ts
import { fileURLToPath } from 'node:url';
import { calibrate, type Model } from './calibrate.ts';
import { type Cluster, ceilings, indivisible, keptBytes } from './capacity.ts';
import { ASSUMED, type Costs, readCosts } from './costs.ts';
import { simulate } from './simulate.ts';

export const GOAL_PER_S = 1_000_000;
const THREADS = 4;
const SIMULATED_S = 0.2;
const CLUSTERS: readonly Cluster[] = [
  { nodes: 1, threads_per_node: THREADS, masters: 1, partitions: 16 },
  { nodes: 2, threads_per_node: THREADS, masters: 1, partitions: 32 },
  { nodes: 4, threads_per_node: THREADS, masters: 3, partitions: 64 },
  { nodes: 20, threads_per_node: THREADS, masters: 12, partitions: 256 },
  { nodes: 100, threads_per_node: THREADS, masters: 32, partitions: 1_024 },
  { nodes: 100, threads_per_node: THREADS, masters: 64, partitions: 1_024 },
  { nodes: 100, threads_per_node: THREADS, masters: 32, partitions: 512 },
];

export function modelText(costs: Costs = readCosts(), model: Model = calibrate(costs)): string {
  const { parts, fill, fits } = model;
  const spread = CLUSTERS.map((cluster) => {
    const [first, second] = ceilings(costs, parts, cluster, fill).filter(({ part }) => part !== 'front doors, single tasks');
    return [named(cluster), number(first?.tasks_per_s), first?.part ?? '', `${second?.part ?? ''}, ${number(second?.tasks_per_s)}`];
  });
  const million = CLUSTERS.filter(({ nodes }) => nodes === 100).map((cluster) => {
    const deployment = { threads: cluster.nodes * THREADS, masters: cluster.masters, partitions: cluster.partitions };
    const run = simulate(parts, deployment, { tasks: GOAL_PER_S * SIMULATED_S, per_s: GOAL_PER_S });
    const keeps_up = run.late_p99_ms < KEEPS_UP_MS;
    return [
      named(cluster),
      keeps_up ? 'yes' : 'no',
      (1 / run.turns_a_task).toPrecision(2),
      percent(run.busiest_thread),
      percent(run.busiest_master),
      keeps_up ? `${run.late_p50_ms.toFixed(1)} / ${run.late_p99_ms.toFixed(1)} ms` : 'grows',
    ];
  });
  const still = [...indivisible(costs, parts)].map(({ part, tasks_per_s, way }) => [part, number(tasks_per_s), way]);
  const week = keptBytes(costs, GOAL_PER_S, 7 * 86_400) / 1e12;
  const hour = keptBytes(costs, GOAL_PER_S, 3_600) / 1e12;
  const errors = fits.map(({ name, measured, modelled, error, given }) => {
    return [name, number(measured), number(modelled), `${error > 0 ? '+' : '−'}${percent(Math.abs(error))}`, given ? 'given' : 'predicted'];
  });
  const { task_engine_us, task_redis_us, turn_engine_us, turn_redis_us, wake_us } = parts;
  return `Costs, in microseconds of one core, from runs of ${costs.measured}${costs.warm ? '' : '; of servers just started, whose code was being compiled meanwhile, so those of a turn are too high'}:
a task ${us(task_engine_us)} in a thread and ${us(task_redis_us)} in Redis, a turn of a partition ${us(turn_engine_us)} and ${us(turn_redis_us)} however many tasks it carries, a wake-up of a
thread ${us(wake_us)}. Assumed, not measured: ${ASSUMED.round_trip_us} µs to Redis and back, targets that take ${ASSUMED.call_us / 1_000} ms${costs.warm ? '' : `, ${percent(ASSUMED.redis_share)} of the CPU of a task due alone in Redis`}.

How far it is from what was measured:

${table(['', 'measured', 'model', 'error', ''], errors)}

What work that is spread evenly comes to, at all of every core and with turns as full as they get where work waits, and what is full next:

${table(['nodes of 4 threads, masters, partitions', 'tasks a second', 'full first', 'then'], spread)}

Simulated, ${number(GOAL_PER_S)} tasks a second over 100 nodes:

${table(['', 'keeps up', 'tasks a turn', 'busiest thread', 'busiest master', 'late, p50 / p99'], million)}

A master that is full is not the end: while it is busy more waits, and a turn that carries more costs it hardly more. It is the end where turns are full.

What cannot be divided:

${table(['', 'tasks a second', 'what helps'], still)}

${number(GOAL_PER_S)} tasks a second fill ${hour.toFixed(1)} TB of Redis in an hour of \`SLUICE_RETENTION\`, and ${week.toFixed(0)} TB in the seven days that are its default.
`;
}

/** Late by less than this at the end of a short run, a deployment does not fall behind. */
const KEEPS_UP_MS = 50;
function named({ nodes, masters, partitions }: Cluster): string {
  return `${nodes}, ${masters}, ${partitions.toLocaleString('en-US')}`;
}

/** To three digits: more would claim more than it knows. */
function number(value = Number.NaN): string {
  return Number(value.toPrecision(3)).toLocaleString('en-US');
}

function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}

function us(value: number): string {
  return String(Number(value.toPrecision(2)));
}

export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  return [head, head.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`.replace('|  |', '| |')).join('\n');
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.stdout.write(modelText());
