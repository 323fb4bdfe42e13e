// The tasks of all runs of a schedule: counted by what their batches say, read where a page needs them.
import { partitionOf } from '../base/id.ts';
import { type BatchRow, readBatch } from './batches.ts';
import { keys } from './keys.ts';
import { readTask } from './listing.ts';
import type { RedisClient } from './script.ts';
import { scheduleRuns } from './scripts.gen.ts';
import { readTasks, statusOf, type TaskRow, type TaskStatus } from './task-rows.ts';

/** A run that is still there. */
interface RunRow {
  core: string;
  /** -1: all tasks of the batch. */
  index: number;
  /** How many of its tasks the filter lets through. */
  count: number;
}

export interface ScheduledTask {
  row: TaskRow;
  batch: BatchRow;
}

/** About half a millisecond of Redis. */
const SLICE = 500;
/** Runs that are read at a time: what is read of one is some MB where payloads are large. */
const RUNS_READ = 8;

/** A page of them: newest run first, in it the last task first. `status` null: any. */
export async function listScheduleTasks(
  client: RedisClient,
  account_id: string,
  core: string,
  page: { status: TaskStatus | null; limit: number; offset: number },
): Promise<{ total: number; tasks: ScheduledTask[] }> {
  let total = 0;
  const wanted: { run: RunRow; skip: number; take: number }[] = [];
  for await (const run of allRuns(client, account_id, core, page.status)) {
    const skip = Math.max(0, page.offset - total);
    const take = Math.min(run.count - skip, page.offset + page.limit - Math.max(total, page.offset));
    if (take > 0) wanted.push({ run, skip, take });
    total += run.count;
  }
  const tasks: ScheduledTask[] = [];
  for (let at = 0; at < wanted.length; at += RUNS_READ) {
    const some = wanted.slice(at, at + RUNS_READ);
    const parts = await Promise.all(some.map(({ run, skip, take }) => readRun(client, account_id, run, page.status, skip, take)));
    tasks.push(...parts.flat());
  }
  return { total, tasks };
}

async function* allRuns(client: RedisClient, account_id: string, core: string, status: TaskStatus | null): AsyncGenerator<RunRow> {
  const meta = keys.partition(partitionOf(core));
  for (let offset = 0; ; offset += SLICE) {
    const [length, rows] = await scheduleRuns.call(client, { meta }, { core, account: account_id, offset, most: SLICE });
    for (const [batch, index, state, ...counts] of rows) {
      const count = index >= 0 ? countOne(state, status) : countBatch(counts, status);
      if (count > 0) yield { core: batch, index, count };
    }
    if (length < SLICE) return;
  }
}

function countOne(state: string, status: TaskStatus | null): number {
  return status === null || statusOf(state, TRAY) === status ? 1 : 0;
}

/** A tray never ends, so its tasks stand as their bytes say. */
const TRAY = { status: null };

function countBatch([n, c, f, x, r]: readonly [number, number, number, number, number], status: TaskStatus | null): number {
  switch (status) {
    case null:
      return n;
    case 'completed':
      return c;
    case 'failed':
      return f;
    case 'cancelled':
      return x;
    case 'processing':
      return r;
    case 'queued':
      return n - c - f - x - r;
  }
}

async function readRun(
  client: RedisClient,
  account_id: string,
  { core, index }: RunRow,
  status: TaskStatus | null,
  skip: number,
  take: number,
): Promise<ScheduledTask[]> {
  if (index >= 0) {
    const found = await readTask(client, account_id, core, index);
    // What changed since it was counted is left out rather than shown under a status that it does not have.
    return found !== null && (status === null || found.row.status === status) ? [found] : [];
  }
  const [batch, states] = await Promise.all([
    readBatch(client, account_id, core),
    client.getBuffer(keys.states(partitionOf(core), core)).then((bytes) => bytes?.toString('latin1') ?? ''),
  ]);
  if (batch === null) return [];
  const indexes: number[] = [];
  let passed = 0;
  for (let i = states.length - 1; i >= 0 && indexes.length < take; i--) {
    if (status !== null && statusOf(states[i] ?? '', batch) !== status) continue;
    if (passed >= skip) indexes.push(i);
    passed += 1;
  }
  const rows = await readTasks(client, batch, states, indexes);
  return rows.map((row) => ({ row, batch }));
}
