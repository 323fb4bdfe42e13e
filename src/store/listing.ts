// Lists of an account's batches over all partitions, and of a batch's tasks.
import { partitionOf } from '../base/id.ts';
import { BATCH_FIELDS, type BatchRow, readBatch, toRow } from './batches.ts';
import { keys } from './keys.ts';
import { matchAll, newestFirst, type Place, toPlaces } from './matching.ts';
import type { QuotaState } from './quota.ts';
import type { RedisClient } from './script.ts';
import { batchRead } from './scripts.gen.ts';
import { readableAtOnce, readTasks, STATE, statusOf, type TaskRow, type TaskStatus } from './task-rows.ts';

/** Above this offset, the first page is found by counting instead of by reading all that comes before it. */
const READ_OFFSET_MAX = 500;

export interface BatchFilter {
  /** null: any. */
  status: string | null;
  /** Hashes of labels (labelHash) that a batch must all have. */
  labels: readonly string[];
}

/** By offset, or (with `after`) what is behind a place, null for what is first; then the answer tells the last place where there is more. */
export interface PlacePage {
  limit: number;
  /** 0 with `after`. */
  offset: number;
  after?: Place | null | undefined;
}

/** A page of an account's batches, newest first, ties by id; `total` counts all that match. */
export async function listBatches(
  client: RedisClient,
  partitions: number,
  account_id: string,
  page: BatchFilter & PlacePage,
): Promise<{ total: number; rows: BatchRow[]; next?: Place | null }> {
  const lists = Array.from({ length: partitions }, (_, p) => listsOf(p, account_id, page));
  const { after } = page;
  const need = page.offset + page.limit + (after === undefined ? 0 : 1);
  if ((lists[0]?.length ?? 0) > 1) {
    const found = await Promise.all(lists.map((of_partition) => matchAll(client, of_partition, need, after)));
    const total = found.reduce((sum, { count }) => sum + count, 0);
    const found_places = found.flatMap(({ newest }) => newest).sort(newestFirst);
    const { places, ...next } = cut(found_places.slice(page.offset, need), page);
    return { total, rows: await readRows(client, account_id, places), ...next };
  }
  const { total, places, ...next } = await listPlaces(client, lists.flat(), page);
  return { total, rows: await readRows(client, account_id, places), ...next };
}

/** What a batch must be in, of one partition. */
function listsOf(p: number, account_id: string, { status, labels }: BatchFilter): string[] {
  const lists = labels.map((hash) => keys.accountLabel(p, account_id, hash));
  if (status !== null) lists.push(keys.accountBatches(p, account_id, status));
  return lists.length > 0 ? lists : [keys.accountBatches(p, account_id)];
}

/** A page of what one list of each partition holds, newest first, ties by id. */
export async function listPlaces(
  client: RedisClient,
  lists: readonly string[],
  page: PlacePage,
): Promise<{ total: number; places: Place[]; next?: Place | null }> {
  const counts = await Promise.all(lists.map((key) => client.zcard(key)));
  const total = counts.reduce((sum, n) => sum + n, 0);
  if (page.offset >= total) return { total, ...cut([], page) };
  const filled = lists.filter((_, p) => (counts[p] ?? 0) > 0);
  if (page.after) return { total, ...cut(await placesBehind(client, filled, page.after, page.limit + 1), page) };
  const from = page.offset > READ_OFFSET_MAX ? await findOffset(client, filled, page.offset) : { max_ms: Infinity, skip: page.offset };
  const need = from.skip + page.limit + (page.after === undefined ? 0 : 1);
  const parts = await Promise.all(
    filled.map((key) =>
      client.zrange(key, from.max_ms === Infinity ? '+inf' : from.max_ms, '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, need, 'WITHSCORES'),
    ),
  );
  return { total, ...cut(parts.flatMap(toPlaces).sort(newestFirst).slice(from.skip, need), page) };
}

/** The `count` places behind one, which may be gone itself. */
async function placesBehind(client: RedisClient, lists: readonly string[], after: Place, count: number): Promise<Place[]> {
  const { created_ms } = after;
  const parts = await Promise.all(
    lists.map(async (key) => {
      const ties = await client.zcount(key, created_ms, created_ms);
      return client.zrange(key, created_ms, '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, count + ties, 'WITHSCORES');
    }),
  );
  const behind = parts.flatMap(toPlaces).filter((place) => newestFirst(after, place) < 0);
  return behind.sort(newestFirst).slice(0, count);
}

/** A page, and the last place of it where one more was found. */
function cut(found: readonly Place[], { limit, after }: PlacePage): { places: Place[]; next?: Place | null } {
  const places = found.slice(0, limit);
  return after === undefined ? { places } : { places, next: found.length > limit ? (places.at(-1) ?? null) : null };
}

/** The largest time such that no more than `offset` batches are newer than it, and how many of those from it on to skip. */
async function findOffset(client: RedisClient, lists: readonly string[], offset: number): Promise<{ max_ms: number; skip: number }> {
  const newer = async (ms: number): Promise<number> => {
    const counts = await Promise.all(lists.map((key) => client.zcount(key, `(${ms}`, '+inf')));
    return counts.reduce((sum, n) => sum + n, 0);
  };
  let low = 0;
  let high = 2 ** 42;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if ((await newer(middle)) <= offset) high = middle;
    else low = middle + 1;
  }
  return { max_ms: low, skip: offset - (await newer(low)) };
}

async function readRows(client: RedisClient, account_id: string, places: readonly Place[]): Promise<BatchRow[]> {
  const rows = await Promise.all(
    places.map(async ({ core }) => toRow(core, await client.hmgetBuffer(keys.batch(partitionOf(core), core), ...BATCH_FIELDS))),
  );
  return rows.filter((row): row is BatchRow => row !== null && row.account_id === account_id);
}

/** A batch as its owner may read it now, within the limit on such reads. */
export type BatchRead =
  | { kind: 'missing' }
  | { kind: 'refused'; quota: QuotaState }
  | { kind: 'read'; quota: QuotaState; batch: BatchRow; states: string };

/** Batches of one partition that are read together, each for all who ask for it at this moment. */
export interface AskedBatch {
  account_id: string;
  core: string;
  asking: number;
}

/** Owner, limit (reads a minute, 0 = none) and read are one step. `states` holds one byte a task where it is asked for. */
export async function readLimited(
  client: RedisClient,
  account_id: string,
  core: string,
  { limit, states }: { limit: number; states: boolean },
): Promise<BatchRead> {
  const [[read] = []] = await readAll(client, partitionOf(core), [{ account_id, core, asking: 1 }], limit, states);
  return read ?? { kind: 'missing' };
}

/** The same for many, without states: of each batch, what each of those who ask for it gets; they share its row. */
export function readTogether(
  client: RedisClient,
  partition: number,
  batches: readonly AskedBatch[],
  limit: number,
): Promise<BatchRead[][]> {
  return readAll(client, partition, batches, limit, false);
}

async function readAll(
  client: RedisClient,
  partition: number,
  batches: readonly AskedBatch[],
  limit: number,
  states: boolean,
): Promise<BatchRead[][]> {
  const reads: string[] = [];
  for (const { core, account_id, asking } of batches) reads.push(core, account_id, String(asking), states ? '1' : '0');
  const replies = await batchRead.callBuffer(client, { meta: keys.partition(partition) }, { limit, reads });
  return batches.map(({ core, asking }, at) => {
    const [granted, left, next_ms, fields, bytes] = replies[at] ?? MISSING;
    const batch = granted > 0 ? toRow(core, fields) : null;
    return Array.from({ length: asking }, (_, i): BatchRead => {
      if (granted < 0) return { kind: 'missing' };
      if (i >= granted) return { kind: 'refused', quota: { granted: false, left, next_ms } };
      if (batch === null) return { kind: 'missing' };
      const quota = { granted: true, left: left + granted - 1 - i, next_ms };
      return { kind: 'read', quota, batch, states: waitingIn(bytes.toString('latin1'), batch) };
    });
  });
}

const MISSING = [-1, 0, 0, [] as (Buffer | null)[], Buffer.alloc(0)] as const;

/** State bytes from task `from` on, where what a round has not reached says that it waits. */
function waitingIn(states: string, { undealt }: BatchRow, from = 0): string {
  if (undealt === null) return states;
  const [first, after] = [Math.max(0, undealt.from - from), Math.max(0, undealt.to + 1 - from)];
  const waiting = states.slice(first, after).replace(/[fe]/g, STATE.retrying);
  return states.slice(0, first) + waiting + states.slice(after);
}

/** By offset, or from task `first` on. */
export interface TaskPage {
  status: string | null;
  limit: number;
  offset: number;
  first?: number | undefined;
}

/** Which tasks of a batch that was just read are on a page, in the order of creation; `next` is where the one behind it begins. */
export function chooseTasks(batch: BatchRow, states: string, page: TaskPage): { total: number; indexes: number[]; next: number | null } {
  const { total, indexes } = choose(states, batch, { ...page, limit: page.limit + 1 });
  return { total, indexes: indexes.slice(0, page.limit), next: indexes[page.limit] ?? null };
}

/** State bytes of a batch that was read, of its tasks `from` to `last`; '' where it is gone meanwhile. */
export async function readStates(client: RedisClient, batch: BatchRow, from: number, last: number): Promise<string> {
  const bytes = await client.getrangeBuffer(keys.states(partitionOf(batch.core), batch.core), from, last);
  return waitingIn(bytes.toString('latin1'), batch, from);
}

/** Of a batch that was read, its tasks from `from` on that have ended, some at a time, in their order; null where it is gone meanwhile. */
export async function* readEnded(client: RedisClient, batch: BatchRow, from: number): AsyncGenerator<TaskRow[] | null, void, undefined> {
  for (let at = from; at < batch.total; at += ENDED_STATES) {
    const states = await readStates(client, batch, at, Math.min(at + ENDED_STATES, batch.total) - 1);
    const indexes = [...states].flatMap((byte, i) => (ENDED.has(statusOf(byte, batch)) ? [at + i] : []));
    for (const page of readableAtOnce(batch, indexes, ENDED_TASKS)) {
      const rows = await readTasks(client, batch, states, page, at);
      if (rows.length < page.length) return yield null;
      yield rows;
    }
    if (states === '') return yield null;
  }
}

/**
 * Of a batch that was cancelled or has expired, the tasks that ended with it, neighbours together; null where they are more than `max`.
 */
export async function readStopped(client: RedisClient, batch: BatchRow, max: number): Promise<{ from: number; tasks: number }[] | null> {
  const runs: { from: number; tasks: number }[] = [];
  let left = max;
  for (let at = 0; at < batch.total; at += ENDED_STATES) {
    const states = await readStates(client, batch, at, at + ENDED_STATES - 1);
    for (const { index, 0: waiting } of states.matchAll(/[qr]+/g)) {
      left -= waiting.length;
      if (left < 0) return null;
      const before = runs.at(-1);
      if (before !== undefined && before.from + before.tasks === at + index) before.tasks += waiting.length;
      else runs.push({ from: at + index, tasks: waiting.length });
    }
  }
  return runs;
}

/** State bytes that are read at once, and tasks: with the longest excerpts about 1 MB. */
const ENDED_STATES = 16_384;
const ENDED_TASKS = 500;
const ENDED: ReadonlySet<TaskStatus> = new Set(['completed', 'failed', 'cancelled'] as const);

function choose(states: string, batch: BatchRow, page: TaskPage): { total: number; indexes: number[] } {
  const indexes: number[] = [];
  if (page.status === null) {
    const from = page.first ?? page.offset;
    for (let i = from; i < Math.min(states.length, from + page.limit); i++) indexes.push(i);
    return { total: states.length, indexes };
  }
  const wanted = new Set(Object.values(STATE).filter((byte) => statusOf(byte, batch) === page.status));
  let total = 0;
  for (let i = 0; i < states.length; i++) {
    if (!wanted.has(states[i] as (typeof STATE)[keyof typeof STATE])) continue;
    const reached = page.first === undefined ? total >= page.offset : i >= page.first;
    if (reached && indexes.length < page.limit) indexes.push(i);
    total += 1;
  }
  return { total, indexes };
}

/** One task of a batch or tray. Null where the account has none. */
export async function readTask(
  client: RedisClient,
  account_id: string,
  core: string,
  index: number,
): Promise<{ batch: BatchRow; row: TaskRow } | null> {
  const batch = await readBatch(client, account_id, core);
  if (batch === null || index >= batch.total) return null;
  const [row] = await readTasks(client, batch, await readStates(client, batch, index, index), [index], index);
  return row === undefined ? null : { batch, row };
}
