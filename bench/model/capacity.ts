// How many tasks a second a deployment bears, part by part, and which part is full first. Ceilings are of parts at all of their core; a
// deployment that should bear anything else than the average stays at half of that (src/cli/plan.ts).
import type { Costs } from './costs.ts';
import { type Parts, simulate } from './simulate.ts';

export interface Cluster {
  /** Processes of all roles, each with one front door. */
  nodes: number;
  threads_per_node: number;
  masters: number;
  partitions: number;
}

export interface Ceiling {
  part: string;
  tasks_per_s: number;
  /** What is done about it. */
  way: string;
}

/** Ceilings for work that is spread evenly, the lowest first, with so many tasks in a turn: under pressure turns fill by themselves. */
export function ceilings(costs: Costs, parts: Parts, cluster: Cluster, fill: number): Ceiling[] {
  const { nodes, threads_per_node, masters, partitions } = cluster;
  const thread_us = parts.task_engine_us + (parts.turn_engine_us + 2 * parts.wake_us) / fill;
  const redis_us = parts.task_redis_us + parts.turn_redis_us / fill;
  const all: Ceiling[] = [
    {
      part: 'callback threads',
      tasks_per_s: (Math.min(nodes * threads_per_node, partitions) * 1e6) / thread_us,
      way: 'more threads, or nodes; at most as many as partitions',
    },
    { part: 'Redis masters', tasks_per_s: (Math.min(masters, partitions) * 1e6) / redis_us, way: 'more masters' },
    { part: 'front doors, batches', tasks_per_s: (nodes * 1e6) / costs.create_us, way: 'more nodes' },
    { part: 'front doors, single tasks', tasks_per_s: (nodes * 1e6) / costs.single_us, way: 'batches, or more nodes' },
  ];
  return all.sort((a, b) => a.tasks_per_s - b.tasks_per_s);
}

/** What stays one thing however much is added. */
export function indivisible(costs: Costs, parts: Parts): Ceiling[] {
  const alone = simulate(parts, { threads: 1, masters: 1, partitions: 1 }, { tasks: 20_000, per_s: null });
  return [
    { part: 'one batch, or one partition', tasks_per_s: alone.tasks_per_s, way: 'divide the work into more batches' },
    { part: 'one limiter, of large batches', tasks_per_s: costs.limiter_per_s, way: 'several limiters, each with its share' },
    { part: 'one limiter, of single tasks', tasks_per_s: costs.limiter_singles_per_s, way: 'batches' },
  ];
}

/** Bytes of Redis that finished tasks take, for so long. */
export function keptBytes(costs: Costs, tasks_per_s: number, retention_s: number): number {
  return tasks_per_s * retention_s * costs.waiting_bytes;
}
