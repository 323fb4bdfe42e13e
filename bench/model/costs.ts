// What the model reckons with: costs per part, each from the last full run in bench/results.jsonl that has it. Nothing is entered by hand
// but what ASSUMED says.
import { readFileSync } from 'node:fs';
import { recordedRuns } from '../lib/recorded.ts';

const RESULTS = new URL('../results.jsonl', import.meta.url);

/** What no row measures, and what it is taken to be. */
export const ASSUMED = {
  /** From a server to its Redis and back, on one machine; between machines it is longer, and only latency. */
  round_trip_us: 100,
  /** How long a target takes; the benches' receiver answers at once. */
  call_us: 500,
  /** Of the CPU of a task that comes due alone, Redis's part, where a run does not tell them apart (none before 2026-11-22 did). */
  redis_share: 0.18,
} as const;

export interface Measured {
  processes: number;
  masters: number;
  engine_us: number;
  redis_us: number;
}

export interface Costs {
  measured: string;
  cores: number;
  /** A task in full batches, end to end: of the server, of Redis; and of the receiver, which shares the machine. */
  task_engine_us: number;
  task_redis_us: number;
  receiver_us: number;
  /** Of it, of the front door. */
  create_us: number;
  single_us: number;
  waiting_bytes: number;
  /** Tasks a second as measured, end to end. */
  saturated_per_s: number;
  /** What a server uses when nothing happens, microseconds a second. */
  idle_us_per_s: number;
  /** Starts that one limiter grants: of large ranges, and task by task. */
  limiter_per_s: number;
  limiter_singles_per_s: number;
  /** Whether `scale_out` is of servers whose code is compiled; of fresh ones, a part of their CPU is the compiler's. */
  warm: boolean;
  /** CPU of a task that comes due alone, at SCALE_OUT_PER_S. */
  scale_out: readonly Measured[];
}

/** What row `scale_out` offers. */
export const SCALE_OUT_PER_S = 2_000;

export function readCosts(text = readFileSync(RESULTS, 'utf8')): Costs {
  const runs = recordedRuns(text);
  const last = runs.findLast(({ results }) => results?.['end_to_end'] !== undefined && results['scale_out'] !== undefined);
  if (last === undefined) throw new Error('bench/results.jsonl has no full run with end_to_end and scale_out.');
  const figure = (bench: string, name: string): number => {
    const value = last.results?.[bench]?.[name];
    if (typeof value !== 'number') throw new Error(`The last full run has no ${bench}.${name}.`);
    return value;
  };
  const offered = last.results?.['scale_out'] ?? {};
  const warm = Object.keys(offered).some((name) => name.startsWith('warm_'));
  const scale_out = Object.entries(offered).flatMap(([name, cpu_us]): Measured[] => {
    const [, where = '', processes, masters] = /^(?:warm_)?cpu_us_((\d+)_processes_(\d+)_masters)$/.exec(name) ?? [];
    if (where === '' || cpu_us === null || warm !== name.startsWith('warm_')) return [];
    const redis_us = offered[`warm_redis_cpu_us_${where}`] ?? cpu_us * ASSUMED.redis_share;
    return [{ processes: Number(processes), masters: Number(masters), engine_us: cpu_us - redis_us, redis_us }];
  });
  return {
    measured: `${last.date.slice(0, 10)}, ${last.cpu}, ${last.cores} cores`,
    cores: last.cores,
    task_engine_us: figure('end_to_end', 'engine_cpu_us'),
    task_redis_us: figure('end_to_end', 'redis_cpu_us'),
    receiver_us: figure('end_to_end', 'receiver_cpu_us'),
    create_us: figure('create', 'engine_cpu_us'),
    single_us: figure('single', 'engine_cpu_us'),
    waiting_bytes: figure('create', 'redis_bytes_own_urls'),
    saturated_per_s: figure('end_to_end', 'tasks_per_s'),
    idle_us_per_s: (figure('idle', 'engine_cpu_percent') / 100) * 1e6,
    limiter_per_s: figure('limiter_grants', 'window_per_s'),
    limiter_singles_per_s: figure('limiter_grants', 'window_singles_per_s'),
    warm,
    scale_out,
  };
}
