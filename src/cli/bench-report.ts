// What `sluice bench` says in the end.
import type { BatchStats } from '../schema/types.gen.ts';
import type { Received } from './bench-receiver.ts';
import { facts, number } from './output.ts';

/** One batch of the load. */
export interface Sent {
  id: string;
  tasks: number;
  /** By the service's clock, as is the end. */
  created_ms: number;
  end: { ended_ms: number; stats: BatchStats } | null;
}

interface Run {
  target: string;
  tasks: number;
  batch_tasks: number;
  payload_bytes: number;
  rate: number | null;
  label: string;
  sent: readonly Sent[];
  /** From the first request of a create to the last answer. */
  created_ms: number;
  /** Of each create that was taken, without the patience before it. */
  create_ms: readonly number[];
  limited: number;
  received: Received | null;
}

export interface BenchReport {
  target: string;
  label: string;
  tasks: number;
  batches: number;
  payload_bytes: number;
  /** As asked for; null: as many as the service takes. */
  rate: number | null;
  created: number;
  completed: number;
  failed: number;
  cancelled: number;
  /** In batches that had not ended when the time was up. */
  unfinished: number;
  /** Ended, from the first create until the last batch ended; null where none did. */
  tasks_per_s: number | null;
  create: { tasks_per_s: number; p50_ms: number | null; p99_ms: number | null; limited: number };
  /** Of a batch, from its creation to its end. */
  batch: { p50_ms: number | null; p99_ms: number | null; max_ms: number | null };
  received: Received | null;
}

export function reportOf(run: Run): BenchReport {
  const { sent, target, label, tasks, payload_bytes, rate, limited, received } = run;
  const ends = sent.flatMap(({ created_ms, end }) => (end === null ? [] : [{ created_ms, ...end }]));
  const sum = (count: (stats: BatchStats) => number): number => ends.reduce((total, { stats }) => total + count(stats), 0);
  const created = sent.reduce((total, one) => total + one.tasks, 0);
  const took_ms = ends.map(({ created_ms, ended_ms }) => ended_ms - created_ms);
  const ended = sum(({ total }) => total);
  const last_ms = ends.reduce((latest, { ended_ms }) => Math.max(latest, ended_ms), Number.NEGATIVE_INFINITY);
  const first_ms = ends.reduce((earliest, { created_ms }) => Math.min(earliest, created_ms), Number.POSITIVE_INFINITY);
  // Batches are done in no time at times, by a clock of milliseconds.
  const span_ms = Math.max(1, last_ms - first_ms);
  return {
    target,
    label,
    tasks,
    batches: sent.length,
    payload_bytes,
    rate,
    created,
    completed: sum(({ completed }) => completed),
    failed: sum(({ failed }) => failed),
    cancelled: sum(({ cancelled }) => cancelled),
    unfinished: created - ended,
    tasks_per_s: ended === 0 ? null : round((ended * 1_000) / span_ms),
    create: {
      tasks_per_s: round((created * 1_000) / Math.max(1, run.created_ms)),
      p50_ms: percentile(run.create_ms, 0.5),
      p99_ms: percentile(run.create_ms, 0.99),
      limited,
    },
    batch: { p50_ms: percentile(took_ms, 0.5), p99_ms: percentile(took_ms, 0.99), max_ms: percentile(took_ms, 1) },
    received,
  };
}

export function reportText(report: BenchReport): string {
  const { create, batch, received } = report;
  const rate = report.rate === null ? 'as many as the service takes' : `${report.rate} a second`;
  const calls = received === null ? null : `${number(received.calls)} calls, of ${number(received.tasks)} tasks`;
  const ends = [
    `${number(report.completed)} completed`,
    `${number(report.failed)} failed`,
    ...(report.cancelled > 0 ? [`${number(report.cancelled)} cancelled`] : []),
    ...(report.unfinished > 0 ? [`${number(report.unfinished)} not ended in time`] : []),
  ];
  return facts([
    ['load', `${number(report.tasks)} tasks of ${report.payload_bytes} bytes in ${number(report.batches)} batches, ${rate}`],
    ['tasks', ends.join(', ')],
    ['throughput', report.tasks_per_s === null ? '' : `${number(report.tasks_per_s)} tasks a second, created, called and counted`],
    ['created', `${number(create.tasks_per_s)} tasks a second`],
    ['  a create', `p50 ${ms(create.p50_ms)}, p99 ${ms(create.p99_ms)}`],
    ['  asked to wait', create.limited === 0 ? '' : `${number(create.limited)} times (429)`],
    ['a batch', `p50 ${ms(batch.p50_ms)}, p99 ${ms(batch.p99_ms)}, at most ${ms(batch.max_ms)}, from its creation to its end`],
    ['received', calls],
  ]);
}

function ms(value: number | null): string {
  return value === null ? '–' : `${value} ms`;
}

/** Nearest rank; null of nothing. */
function percentile(values: readonly number[], share: number): number | null {
  const sorted = [...values].sort((a, b) => a - b);
  const value = sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)];
  return value === undefined ? null : round(value);
}

function round(value: number): number {
  return Number(value.toPrecision(4));
}
