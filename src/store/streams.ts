// What progress streams need of Redis: tickets, places, looks at watched batches, and the hints that they send.
import { createHash } from 'node:crypto';
import { partitionOf } from '../base/id.ts';
import { PAGE_TASKS } from '../base/limits.ts';
import { type BatchRow, type BatchStatus, toRow } from './batches.ts';
import { keys } from './keys.ts';
import { decodeResults } from './records.ts';
import type { RedisClient } from './script.ts';
import { streamLook, streamTake, streamTicket } from './scripts.gen.ts';

export const TICKET_MS = 30_000;

/** An account, and the token by which it asked: its hash, null where that always holds. */
export interface Holder {
  account_id: string;
  token: string | null;
}

/** Writes a ticket for one stream of a batch; when it ends (ms, Redis's clock), or null where the account has no such batch. */
export async function writeTicket(client: RedisClient, { account_id, token }: Holder, core: string, text: string): Promise<number | null> {
  const args = { core, account: account_id, token: token ?? '', ticket: ticketHash(text), ttl_ms: TICKET_MS };
  const ends_ms = await streamTicket.call(client, meta(core), args);
  return ends_ms === 0 ? null : ends_ms;
}

/** Only the hash of a ticket is in Redis. */
export function ticketHash(text: string): string {
  return createHash('sha256').update(text).digest('base64url');
}

/** Who asks for a place: an account, or who has this ticket. */
export type PlaceBy = Holder | { ticket: string };
export type PlaceOutcome = ({ kind: 'taken' | 'full' | 'missing' } & Holder) | { kind: 'unknown' };

export interface Places {
  /** Streams that a batch may have; 0 = no limit. */
  max: number;
  /** How long a place is kept without being renewed. */
  place_ms: number;
}

/** Takes a place for `stream` (null: only tells whether there is one) and uses the ticket up. */
export async function takePlace(
  client: RedisClient,
  core: string,
  by: PlaceBy,
  stream: string | null,
  { max, place_ms }: Places,
): Promise<PlaceOutcome> {
  const who = 'ticket' in by ? { account: '', ticket: ticketHash(by.ticket) } : { account: by.account_id, ticket: '' };
  const [kind, account_id, made_by] = await streamTake.call(client, meta(core), { core, ...who, stream: stream ?? '', max, place_ms });
  if (kind === 'unknown') return { kind };
  const token = 'ticket' in by ? made_by || null : by.token;
  return { kind: kind as 'taken' | 'full' | 'missing', account_id, token };
}

/** Frees places; those that are not there stay so. */
export async function freePlaces(client: RedisClient, core: string, streams: readonly string[]): Promise<void> {
  if (streams.length > 0) await client.zrem(keys.streams(partitionOf(core), core), ...streams);
}

export interface LookOptions extends Places {
  /** How long hints are wanted from now on. */
  watch_ms: number;
  /** Whether they are to name the tasks that ended. */
  tasks: boolean;
  /** The streams of this process, whose places are renewed. */
  streams: readonly string[];
}

export interface Look {
  /** Number of the last hint before it. */
  hint: number;
  /** null: the batch is gone. */
  batch: BatchRow | null;
  /** Streams that have no place any more. */
  lost: string[];
}

/** Reads a batch for those who watch it, and asks for hints of what happens from then on. */
export async function lookAt(client: RedisClient, core: string, { tasks, ...options }: LookOptions): Promise<Look> {
  const [hint, fields, lost] = await streamLook.callBuffer(client, meta(core), { core, tasks: tasks ? 1 : 0, ...options });
  const batch = fields.length === 0 ? null : toRow(core, fields);
  return { hint, batch, lost: lost.map(String) };
}

/** How a batch stood right after a change. */
export interface Hint {
  /** One more than that of the hint before, where none was lost. */
  number: number;
  state: Pick<BatchRow, 'status' | 'total' | 'completed' | 'failed' | 'cancelled' | 'running' | 'updated_ms' | 'finished_ms'>;
  ended: EndedRun[];
}

/** Neighbours that ended alike. */
export interface EndedRun {
  status: 'completed' | 'failed' | 'cancelled';
  from: number;
  tasks: number;
  /** Not by themselves: their batch was cancelled or has expired. */
  with_batch?: true;
}

const ENDED = { c: 'completed', f: 'failed', x: 'cancelled' } as const;

/** Reads a hint as lua/lib/batch.lua (batch_tell) writes it. */
export function parseHint(text: string): Hint {
  const [number, status, total, completed, failed, cancelled, running, updated_ms, finished_ms, ended = ''] = text.split(' ');
  return {
    number: Number(number),
    state: {
      status: status as BatchStatus,
      total: Number(total),
      completed: Number(completed),
      failed: Number(failed),
      cancelled: Number(cancelled),
      running: Number(running),
      updated_ms: Number(updated_ms),
      finished_ms: Number(finished_ms) || null,
    },
    ended: ended === '' ? [] : ended.split(',').map(parseRun),
  };
}

function parseRun(text: string): EndedRun {
  const plus = text.indexOf('+');
  return { status: ENDED[text[0] as keyof typeof ENDED], from: Number(text.slice(1, plus)), tasks: Number(text.slice(plus + 1)) };
}

/** What is known of the last attempts of these tasks, as JSON (see records.ts); tasks without a result are not in it. */
export async function readResults(client: RedisClient, batch: BatchRow, indexes: readonly number[]): Promise<Map<number, string>> {
  const pages = new Map<number, Map<number, number[]>>();
  for (const index of indexes) {
    const base = batch.bases.findLast((from) => from <= index) ?? 0;
    const page = Math.floor((index - base) / PAGE_TASKS);
    const of_segment = pages.get(base) ?? new Map<number, number[]>();
    pages.set(base, of_segment);
    const wanted = of_segment.get(page);
    if (wanted === undefined) of_segment.set(page, [index]);
    else wanted.push(index);
  }
  const results = new Map<number, string>();
  await Promise.all(
    [...pages].map(async ([base, of_segment]) => {
      const fields = [...of_segment.keys()].map((page) => `r${page}`);
      const values = await client.hmgetBuffer(keys.segment(partitionOf(batch.core), batch.core, base), ...fields);
      for (const [k, wanted] of [...of_segment.values()].entries()) {
        const value = values[k];
        if (!value) continue;
        const of_page = decodeResults(value);
        for (const index of wanted) {
          const result = of_page.get((index - base) % PAGE_TASKS);
          if (result !== undefined) results.set(index, result);
        }
      }
    }),
  );
  return results;
}

function meta(core: string): { meta: string } {
  return { meta: keys.partition(partitionOf(core)) };
}
