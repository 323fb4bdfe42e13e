// Tasks of a batch as they are read: their records, their states, and what is known of their last attempts.
import { partitionOf } from '../base/id.ts';
import { PAGE_TASKS } from '../base/limits.ts';
import type { BatchRow } from './batches.ts';
import { keys } from './keys.ts';
import { decodePage, decodeResults, type StoredTask } from './records.ts';
import type { RedisClient } from './script.ts';

/** What is read at a time is what others wait for. A segment is about 1 MB of tasks at most, or 5 MB where each has the largest payload. */
const SEGMENTS_READ = 2;

/** The states of a task as stored, one byte each. */
export const STATE = {
  queued: 'q',
  processing: 'p',
  processing_again: 'P',
  retrying: 'r',
  completed: 'c',
  failed: 'f',
  expired: 'e',
  cancelled: 'x',
} as const;

export type TaskStatus = 'queued' | 'processing' | 'completed' | 'failed' | 'cancelled';

/** A task with what is known of its last attempt; `result` as the callback thread wrote it, null before one ended. */
export interface TaskRow extends StoredTask {
  core: string;
  index: number;
  status: TaskStatus;
  /** The batch ended before this task could run. */
  expired: boolean;
  result: string | null;
}

/** What a state byte means in a batch of this status: what waits when a batch ends is over at once. */
export function statusOf(byte: string, batch: Pick<BatchRow, 'status'>): TaskStatus {
  switch (byte) {
    case STATE.processing:
    case STATE.processing_again:
      return 'processing';
    case STATE.completed:
      return 'completed';
    case STATE.failed:
    case STATE.expired:
      return 'failed';
    case STATE.cancelled:
      return 'cancelled';
    default:
      return batch.status === 'cancelled' ? 'cancelled' : batch.status === 'expired' ? 'failed' : 'queued';
  }
}

/** Pages and results of the tasks at `indexes`, some segments at a time; `states` begins at task `states_from`. */
export async function readTasks(
  client: RedisClient,
  batch: BatchRow,
  states: string,
  indexes: readonly number[],
  states_from = 0,
): Promise<TaskRow[]> {
  const rows: TaskRow[] = [];
  for (const some of readableAtOnce(batch, indexes)) rows.push(...(await readSome(client, batch, states, some, states_from)));
  return rows;
}

/** Cuts `indexes`, whose neighbours are in one segment mostly, where they reach too many of them, or are more than `tasks_max`. */
export function readableAtOnce(
  { bases }: Pick<BatchRow, 'bases'>,
  indexes: readonly number[],
  tasks_max = Number.POSITIVE_INFINITY,
): number[][] {
  const groups: number[][] = [];
  let group: number[] = [];
  let segments = 0;
  let before = -1;
  for (const index of indexes) {
    const base = baseOf(bases, index);
    if (group.length > 0 && (group.length >= tasks_max || (base !== before && segments === SEGMENTS_READ))) {
      groups.push(group);
      [group, segments, before] = [[], 0, -1];
    }
    if (base !== before) segments += 1;
    before = base;
    group.push(index);
  }
  if (group.length > 0) groups.push(group);
  return groups;
}

async function readSome(
  client: RedisClient,
  batch: BatchRow,
  states: string,
  indexes: readonly number[],
  states_from: number,
): Promise<TaskRow[]> {
  const partition = partitionOf(batch.core);
  const reads = new Map<number, { fields: string[]; seen: Map<string, number> }>();
  const field = (base: number, name: string): void => {
    const read = reads.get(base) ?? { fields: [], seen: new Map<string, number>() };
    reads.set(base, read);
    if (read.seen.has(name)) return;
    read.seen.set(name, read.fields.length);
    read.fields.push(name);
  };
  for (const index of indexes) {
    const base = baseOf(batch.bases, index);
    const page = Math.floor((index - base) / PAGE_TASKS);
    field(base, String(page));
    field(base, `r${page}`);
  }
  const values = new Map<number, (Buffer | null)[]>();
  await Promise.all(
    [...reads].map(async ([base, read]) => {
      values.set(base, await client.hmgetBuffer(keys.segment(partition, batch.core, base), ...read.fields));
    }),
  );
  const pages = new Map<string, { tasks: StoredTask[]; results: Map<number, string> }>();
  const rows: TaskRow[] = [];
  for (const index of indexes) {
    const base = baseOf(batch.bases, index);
    const number = Math.floor((index - base) / PAGE_TASKS);
    const place = (index - base) % PAGE_TASKS;
    const value = (name: string): Buffer | null => values.get(base)?.[reads.get(base)?.seen.get(name) ?? -1] ?? null;
    let page = pages.get(`${base}:${number}`);
    if (page === undefined) {
      const tasks = value(String(number));
      const results = value(`r${number}`);
      page = { tasks: tasks === null ? [] : decodePage(tasks), results: results === null ? new Map() : decodeResults(results) };
      pages.set(`${base}:${number}`, page);
    }
    const stored = page.tasks[place];
    if (stored === undefined) continue; // deleted between the two reads
    const byte = states[index - states_from] ?? STATE.queued;
    const status = statusOf(byte, batch);
    const waiting = byte === STATE.queued || byte === STATE.retrying;
    const undealt = waiting && batch.undealt !== null && index >= batch.undealt.from && index <= batch.undealt.to;
    // Before a first attempt has ended there is no result: one that is there came after the states were read.
    const first = byte === STATE.queued || byte === STATE.processing;
    const result = first || undealt ? null : (page.results.get(place) ?? null);
    const swept = byte === STATE.expired || (batch.status === 'expired' && (waiting || result === null));
    const expired = status === 'failed' && swept;
    rows.push({ ...stored, core: batch.core, index, status, expired, result });
  }
  return rows;
}

function baseOf(bases: readonly number[], index: number): number {
  let low = 0;
  let high = bases.length - 1;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if ((bases[middle] ?? 0) <= index) low = middle;
    else high = middle - 1;
  }
  return bases[low] ?? 0;
}
