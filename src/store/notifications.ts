// The delivery log of a batch: its companion read back, newest first, and a notification sent again.
import { partitionOf } from '../base/id.ts';
import { LOG_PAGES_READ, PAGE_TASKS } from '../base/limits.ts';
import type { NotificationEvent } from '../schema/notifications.ts';
import { keys } from './keys.ts';
import { decodeNote, type Note, notesCore } from './notes.ts';
import { decodePage, decodeResults, PAGE_MASK, PAGE_SHIFT } from './records.ts';
import type { RedisClient } from './script.ts';
import { notificationRedeliver } from './scripts.gen.ts';
import { STATE } from './task-rows.ts';

export type NotificationStatus = 'pending' | 'delivering' | 'delivered' | 'failed';

/** A notification with what is known of its last try; `result` as the callback thread wrote it, null before one ended. */
export interface NotificationRow {
  core: string;
  index: number;
  status: NotificationStatus;
  note: Note;
  result: string | null;
}

export interface LogFilter {
  status: NotificationStatus | null;
  event: NotificationEvent | null;
}

const STATUS: Readonly<Record<string, NotificationStatus>> = {
  [STATE.queued]: 'pending',
  [STATE.retrying]: 'pending',
  [STATE.processing]: 'delivering',
  [STATE.processing_again]: 'delivering',
  [STATE.completed]: 'delivered',
  [STATE.failed]: 'failed',
};

/** A page of what a batch has notified of, newest first. What has left the log (lua/lib/notify.lua) is in no page and no total. */
export async function readLog(
  client: RedisClient,
  core: string,
  page: LogFilter & { limit: number; offset: number },
): Promise<{ total: number; rows: NotificationRow[] }> {
  const states = await client.get(keys.states(partitionOf(core), notesCore(core)));
  if (states === null) return { total: 0, rows: [] };
  const wanted = indexesOf(states, page.status);
  const indexes = page.event === null ? wanted : await ofEvent(client, core, wanted, page.event);
  const rows = await readRows(client, core, indexes.slice(page.offset, page.offset + page.limit));
  // One that went on meanwhile is no longer what the filter asked for.
  return { total: indexes.length, rows: rows.filter(({ status }) => page.status === null || status === page.status) };
}

/** One notification; null where it is not in the log. */
export async function readNotification(client: RedisClient, core: string, index: number): Promise<NotificationRow | null> {
  const [row] = await readRows(client, core, [index]);
  return row ?? null;
}

/** `queued`, `waiting` (it is on its way already), or what there is none of. */
export async function redeliver(client: RedisClient, account_id: string, core: string, index: number, operation: string): Promise<string> {
  return notificationRedeliver.call(
    client,
    { meta: keys.partition(partitionOf(core)) },
    { core, index, account: account_id, op: operation },
  );
}

/** Newest first. */
function indexesOf(states: string, status: NotificationStatus | null): number[] {
  const indexes: number[] = [];
  for (let i = states.length - 1; i >= 0; i--) {
    const found = STATUS[states[i] ?? ''];
    if (found !== undefined && (status === null || found === status)) indexes.push(i);
  }
  return indexes;
}

async function ofEvent(client: RedisClient, core: string, indexes: readonly number[], event: NotificationEvent): Promise<number[]> {
  const kept: number[] = [];
  const step = LOG_PAGES_READ * PAGE_TASKS;
  for (let at = 0; at < indexes.length; at += step) {
    const part = indexes.slice(at, at + step);
    const notes = await readNotes(client, core, part);
    kept.push(...part.filter((index) => notes(index)?.event === event));
  }
  return kept;
}

async function readRows(client: RedisClient, core: string, indexes: readonly number[]): Promise<NotificationRow[]> {
  if (indexes.length === 0) return [];
  const [notes, outcomes] = await Promise.all([readNotes(client, core, indexes), readOutcomes(client, core, indexes)]);
  return indexes.flatMap((index) => {
    const note = notes(index);
    const status = STATUS[outcomes.state(index) ?? ''];
    if (note === null || status === undefined) return []; // left the log between two reads
    return [{ core, index, status, note, result: outcomes.result(index) }];
  });
}

async function readNotes(client: RedisClient, core: string, indexes: readonly number[]): Promise<(index: number) => Note | null> {
  const numbers = pagesOf(indexes);
  const values = await client.hmgetBuffer(keys.segment(partitionOf(core), notesCore(core), 0), ...numbers.map(String));
  const pages = decodedPages(numbers, values, (page) => decodePage(page).map(({ payload }) => payload));
  return (index) => {
    const record = pages.get(index >> PAGE_SHIFT)?.[index & PAGE_MASK] ?? null;
    return record === null ? null : decodeNote(record);
  };
}

interface Outcomes {
  state(index: number): string | undefined;
  result(index: number): string | null;
}

/** States and results as of one moment: the state of one attempt beside the result of the next would tell of one too many. */
async function readOutcomes(client: RedisClient, core: string, indexes: readonly number[]): Promise<Outcomes> {
  const [partition, companion] = [partitionOf(core), notesCore(core)];
  const numbers = pagesOf(indexes);
  const transaction = client.multi();
  const [first, last] = [Math.min(...indexes), Math.max(...indexes)];
  transaction.getrange(keys.states(partition, companion), first, last);
  transaction.hmgetBuffer(keys.segment(partition, companion, 0), ...numbers.map((number) => `r${number}`));
  const [states, values] = ((await transaction.exec()) ?? []).map(([error, reply]) => {
    if (error) throw error;
    return reply;
  }) as [string, (Buffer | null)[]];
  const pages = decodedPages(numbers, values, decodeResults);
  return {
    state: (index) => states[index - first],
    result: (index) => pages.get(index >> PAGE_SHIFT)?.get(index & PAGE_MASK) ?? null,
  };
}

function pagesOf(indexes: readonly number[]): number[] {
  return [...new Set(indexes.map((index) => index >> PAGE_SHIFT))];
}

/** By number of page; those that are there. */
function decodedPages<Page>(
  numbers: readonly number[],
  values: readonly (Buffer | null)[],
  decode: (bytes: Buffer) => Page,
): Map<number, Page> {
  const pages = new Map<number, Page>();
  for (const [k, number] of numbers.entries()) {
    const bytes = values[k];
    if (bytes) pages.set(number, decode(bytes));
  }
  return pages;
}
