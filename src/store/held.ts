// Which tasks of some batches are held by something: a queue, what is delayed, a limiter, a thread. A task that waits or is in
// flight and is held by nothing has been forgotten.
//
// All that one partition holds is read, in slices, while it changes. What moves meanwhile moves from what is read earlier to
// what is read later (a range of many origins is dealt out; what is due becomes ready, or goes to a limiter and comes back granted),
// lists are read from their end, since they are taken from at their front, and a task that starts changes its batch's
// change number. So what is found to be forgotten twice, in a batch that has not changed in between, is.
import { partitionOf } from '../base/id.ts';
import { keys } from './keys.ts';
import { type Inspected, isLive, roundOf, type Span, spanOf } from './reconcile.ts';
import type { RedisClient } from './script.ts';
import { STATE } from './task-rows.ts';

/** Attempts of a round are counted from so many times its number on; as lua/lib/batch.lua has it. */
const ROUND_ATTEMPTS = 100;
const SLICE = 500;
const ENTRY = /^(\w+),(\d+),(\d+),(\d+),/;

/** By what a task is held: as one that waits; in flight under a name of its own, or under one that those share which started together. */
const WAITS = 1;
const FLIES = 2;
const FLIES_FIRST = 4;

/** Of each batch, by core, by what each of its tasks is held. */
export type Held = ReadonlyMap<string, { batch: Inspected; by: Uint8Array }>;

/** Names of keys of a partition, without what is before the flow's or the holder's name. */
export interface Holding {
  flows: readonly string[];
  holders: readonly string[];
}

/** Marks what holds the tasks of these batches. `breathe` is awaited after each slice. */
export async function markHeld(
  client: RedisClient,
  partition: number,
  held: Held,
  { flows, holders }: Holding,
  breathe: () => Promise<void>,
): Promise<void> {
  const eachOf = async (scan: (cursor: string) => Promise<[string, string[]]>, take: (pairs: readonly string[]) => void): Promise<void> => {
    let cursor = '0';
    do {
      const [next, pairs] = await scan(cursor);
      take(pairs);
      cursor = next;
      await breathe();
    } while (cursor !== '0');
  };
  const entryOf = (text = ''): string => text.slice(text.indexOf('|') + 1);
  const sorted = (key: string, by: number): Promise<void> =>
    eachOf(
      (cursor) => client.zscan(key, cursor, 'COUNT', SLICE),
      (pairs) => {
        for (let i = 0; i < pairs.length; i += 2) mark(held, entryOf(pairs[i]), by);
      },
    );
  const away = (): Promise<void> =>
    eachOf(
      (cursor) => client.hscan(keys.away(partition), cursor, 'COUNT', SLICE),
      (pairs) => {
        for (let i = 1; i < pairs.length; i += 2) mark(held, entryOf(pairs[i]), WAITS);
      },
    );
  const listed = async (flow: string): Promise<void> => {
    for (let last = -1; ; last -= SLICE) {
      const entries = await client.lrange(keys.flow(partition, flow), last - SLICE + 1, last);
      for (const entry of entries) mark(held, entry, WAITS);
      await breathe();
      if (entries.length < SLICE) return;
    }
  };
  const undealt = (flow: string): boolean => flow.endsWith(':*');
  for (const flow of flows.filter(undealt)) await listed(flow);
  await sorted(keys.delayed(partition), WAITS);
  for (const flow of flows) if (!undealt(flow)) await listed(flow);
  await away();
  await sorted(keys.granted(partition), WAITS);
  await away();
  for (const holder of holders) await sorted(keys.active(partition, holder), FLIES);
}

function mark(held: Held, entry: string, by: number): void {
  const [, core = '', from, to, attempts] = ENTRY.exec(entry) ?? [];
  const found = held.get(core);
  if (found === undefined) return;
  if (by === WAITS && Math.floor(Number(attempts) / ROUND_ATTEMPTS) !== roundOf(found.batch.seen)) return; // left of a round before
  const shown = by === FLIES && from !== to ? FLIES_FIRST : by === FLIES ? FLIES | FLIES_FIRST : by;
  for (let i = Number(from); i <= Number(to) && i < found.by.length; i++) found.by[i] = (found.by[i] ?? 0) | shown;
}

/** Tasks that wait or are in flight and that nothing holds, as runs; those that a round has not reached as one. */
export async function forgotten(client: RedisClient, batch: Inspected, by: Uint8Array): Promise<{ runs: Span[]; undealt: boolean }> {
  const states = (await client.getBuffer(keys.states(partitionOf(batch.core), batch.core))) ?? Buffer.alloc(0);
  const span = spanOf(batch.seen);
  const runs: Span[] = [];
  let undealt = false;
  let from = -1;
  for (let i = 0; i <= states.length; i++) {
    const lost = i < states.length && isLost(batch, states[i] as number, by[i] ?? 0);
    const in_span = span !== null && i >= span[0] && i <= span[1] && i < states.length;
    if (in_span && isLive(batch) && (lost || waitsUndealt(states[i] as number, by[i] ?? 0))) undealt = true;
    if (lost && !in_span) {
      if (from < 0) from = i;
    } else if (from >= 0) {
      runs.push([from, i - 1]);
      from = -1;
    }
  }
  return { runs, undealt };
}

const BYTE = {
  queued: STATE.queued.charCodeAt(0),
  retrying: STATE.retrying.charCodeAt(0),
  first: STATE.processing.charCodeAt(0),
  later: STATE.processing_again.charCodeAt(0),
  failed: STATE.failed.charCodeAt(0),
  expired: STATE.expired.charCodeAt(0),
};

function isLost(batch: Inspected, byte: number, by: number): boolean {
  if (byte === BYTE.queued || byte === BYTE.retrying) return isLive(batch) && (by & WAITS) === 0;
  if (byte === BYTE.first) return (by & FLIES_FIRST) === 0;
  return byte === BYTE.later && (by & FLIES) === 0;
}

function waitsUndealt(byte: number, by: number): boolean {
  return (byte === BYTE.failed || byte === BYTE.expired) && (by & WAITS) === 0;
}
