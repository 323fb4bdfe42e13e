// Messages from one partition to another: never lost, never applied twice, in their order.
//
//   source                              relayer                    destination
//   a script: change + message   ──▶    slice
//                                       receive            ──▶     apply what is above the mark, advance it
//   remove what was handed over  ◀──    acknowledge
//
// The steps are scripts of one partition each, and any process may take them, also several at once, late or twice: what
// was applied is known by its mark, what is acknowledged is removed by its whole text. What a failover of a lane's side
// loses after it was acknowledged is found by the sweep, which asks lanes about references that have been away for long.
// docs/decisions/0010-outbox.md says what exactly is guaranteed.

import { Cluster } from 'ioredis';
import { monotonicMs } from '../base/clock.ts';
import { groupBy } from '../base/group-by.ts';
import type { Keep } from './batches.ts';
import { NotReplicated } from './errors.ts';
import { keys } from './keys.ts';
import type { RedisClient } from './script.ts';
import { outboxAck, outboxAsk, outboxAway, outboxOverdue, outboxReceive, outboxSlice } from './scripts.gen.ts';
import { partitionTag, slotOf } from './tags.ts';

/** Messages in one script call; the scripts take no more. */
export const MESSAGES_MAX = 500;
const DESTINATIONS_MAX = 16;
const ROUNDS_MAX = 8;
const PATIENCE_MS = 1_000;
/** A slice that was read longer ago is not delivered: nobody brings to a destination that lost its mark what has long been granted. */
export const SLICE_MS_MAX = 10_000;
/** Answers are good for a second (lua/outbox/away.lua); a lane that is slow makes no others late. */
const ASK_PATIENCE_MS = 500;
const KEEP_FOR_EVER: Keep = { keep_ms: 1e12, tray_keep_ms: 1e12 };
/** A failover must lose less than this: what was applied longer ago is on the replica too. */
export const AWAY_AFTER_MS = 30_000;

/** The first messages that wait for one destination, as they are stored. */
export interface Slice {
  destination: number;
  messages: (Buffer | string)[];
  /** When it had been read, by this process's clock that never goes back. */
  read_ms: number;
  /** The source's clock then, at least; and by how much it may have been later. */
  source_ms: number;
  unsure_ms: number;
  /** More waits behind these. */
  cut?: boolean;
}

export interface Received {
  /** Sequence up to which the destination has applied messages of this source. */
  mark: number;
  /** How many messages of the slice, from the first, need not be sent again. */
  done: number;
  /** How many of them this call has applied. */
  applied: number;
  /** Whether messages were written there. */
  wrote: boolean;
}

/** A reference about which its lane should be asked. */
export interface Overdue {
  destination: number;
  /** `<lane> <name of the reference>` */
  field: string;
  sequence: string;
}

export interface Answer {
  field: string;
  sequence: string;
  /** Whether the lane holds it. */
  known: boolean;
}

export interface Booked {
  /** References that their lane holds. */
  confirmed: number;
  /** Those that their lane did not know. */
  resent: number;
  /** Unknown to their lane, and nothing of them waits. */
  forgotten: number;
}

export interface Failure {
  destination: number;
  error: Error;
}

/** What is known of the clocks of a Cluster's servers, by their names. */
export interface Clocks {
  /** How far that of the destination, which that server has, is ahead of the source's at most; null where it is not known. */
  ahead_ms(slice: Slice, server: string): Promise<number | null>;
  /** It answered with its time to what was asked then. */
  heard(server: string, now_ms: number, asked_ms: number): void;
}

export interface RelayOptions {
  /** How long what is finished stays, where a message ends a batch; for ever by default, which is for tests. */
  keep?: Keep;
  messages_max?: number;
  /** Calls of `slice` at most; each brings up to `messages_max` messages. */
  rounds_max?: number;
  /** A destination that takes longer is left alone; what was sent to it goes on behind our back. */
  patience_ms?: number;
  /** Destinations to leave out. */
  except?: Iterable<number>;
  /**
   * Called between receiving and acknowledging; where it rejects, the messages stay with the source and come again. With
   * NotReplicated they have arrived: that is no failure of the destination, and where more waits than a call reads they are acknowledged all the same.
   */
  confirm?: (destination: number) => Promise<unknown>;
  clocks?: Clocks;
}

export interface Relayed {
  /** Messages that were acknowledged to the source. */
  moved: number;
  /** Whether something was left though nobody failed: more than the bounds allow, or of a kind that this version does not know. */
  waiting: boolean;
  /** Destinations that answered. */
  reached: number[];
  /** Destinations where messages were written by what was handed over. */
  wrote: number[];
  failed: Failure[];
}

export interface SweepOptions {
  after_ms?: number;
  rounds_max?: number;
}

export interface Swept extends Booked {
  failed: Failure[];
}

/**
 * Carries over what waits in the outbox of `source`, within the bounds. Destinations do not wait for one another and fail
 * each by itself; throws only where the source cannot be read.
 */
export async function relay(client: RedisClient, source: number, options: RelayOptions = {}): Promise<Relayed> {
  const skipped = new Set(options.except);
  const result: Relayed = { moved: 0, waiting: false, reached: [], wrote: [], failed: [] };
  for (let round = 0; round < (options.rounds_max ?? ROUNDS_MAX); round++) {
    const { slices, more } = await readSlices(client, source, { messages_max: options.messages_max ?? MESSAGES_MAX, except: skipped });
    let left = more;
    const moves = slices.map(async (slice) => {
      const moved = await withinPatience(moveSlice(client, source, slice, options), options.patience_ms ?? PATIENCE_MS);
      if (!(moved instanceof Error)) {
        const { done, wrote } = moved;
        result.moved += done;
        if (!result.reached.includes(slice.destination)) result.reached.push(slice.destination);
        if (wrote && !result.wrote.includes(slice.destination)) result.wrote.push(slice.destination);
        if (done > 0) {
          left ||= done < slice.messages.length;
          return;
        }
        result.waiting = true;
      } else {
        result.failed.push({ destination: slice.destination, error: moved });
      }
      skipped.add(slice.destination);
    });
    await Promise.all(moves);
    if (!left) return result;
  }
  return { ...result, waiting: true };
}

/** Asks lanes about what has been away for long and sends again what they do not know. Throws only where the source cannot be read. */
export async function sweep(client: RedisClient, source: number, options: SweepOptions = {}): Promise<Swept> {
  const result: Swept = { confirmed: 0, resent: 0, forgotten: 0, failed: [] };
  for (let round = 0; round < (options.rounds_max ?? ROUNDS_MAX); round++) {
    const { asked_ms, references, more } = await readOverdue(client, source, options.after_ms ?? AWAY_AFTER_MS);
    const answers = await Promise.all(
      [...groupBy(references, ({ destination }) => destination)].map(async ([destination, group]) => {
        const answer = await withinPatience(askLanes(client, destination, group), ASK_PATIENCE_MS);
        if (!(answer instanceof Error)) return answer;
        result.failed.push({ destination, error: answer });
        return [];
      }),
    );
    const booked = await book(client, source, answers.flat(), asked_ms);
    result.confirmed += booked.confirmed;
    result.resent += booked.resent;
    result.forgotten += booked.forgotten;
    if (!more) break;
  }
  return result;
}

/** What to carry over, the destination that waits longest first. */
export async function readSlices(
  client: RedisClient,
  source: number,
  { messages_max = MESSAGES_MAX, except = [] }: { messages_max?: number; except?: Iterable<number> } = {},
): Promise<{ slices: Slice[]; more: boolean }> {
  const meta = keys.partition(source);
  const asked_ms = monotonicMs();
  const [source_ms, more, slices] = await outboxSlice.callBuffer(
    client,
    { meta },
    { messages_max, destinations_max: DESTINATIONS_MAX, skip: [...except] },
  );
  const read_ms = monotonicMs();
  const told = { read_ms, source_ms, unsure_ms: read_ms - asked_ms + 1 };
  return { slices: slices.map(([destination, messages, cut]) => ({ destination, messages, cut: cut === 1, ...told })), more: more === 1 };
}

/** What is passed where it is not known how far the destination's clock is ahead of the source's. */
const AHEAD_UNKNOWN = Number.MAX_SAFE_INTEGER;
/** Of all messages these alone are judged by their date. */
const GRANT = /^\d+ grant /;

/**
 * Applies messages at their destination; those that it has applied before are left out. Throws where they were read too long ago.
 * `clocks` are asked for grants to another server.
 */
export async function receive(
  client: RedisClient,
  source: number,
  slice: Slice,
  keep: Keep = KEEP_FOR_EVER,
  clocks?: Clocks,
): Promise<Received> {
  const { destination, messages, read_ms } = slice;
  const server = otherServer(client, source, destination);
  let known = { ahead_ms: 0, unsure_ms: 0 };
  if (server !== null) {
    const dated = messages.some((message) => GRANT.test(message.toString('latin1')));
    const ahead_ms = dated ? await clocks?.ahead_ms(slice, server) : null;
    known = { ahead_ms: ahead_ms ?? AHEAD_UNKNOWN, unsure_ms: slice.unsure_ms };
  }
  const asked_ms = monotonicMs();
  const age_ms = asked_ms - read_ms;
  if (age_ms + slice.unsure_ms > SLICE_MS_MAX) throw new Error(`the messages were read more than ${SLICE_MS_MAX} ms ago`);
  const [mark, done, applied, wrote, now_us] = await outboxReceive.call(
    client,
    { meta: keys.partition(destination) },
    { source, source_ms: slice.source_ms + age_ms, ...known, ...keep, messages },
  );
  if (server !== null) clocks?.heard(server, now_us / 1000, asked_ms);
  return { mark, done, applied, wrote: wrote === 1 };
}

/** The clock of a partition's server, in ms: what a call that brings no message answers. */
export async function readClock(client: RedisClient, partition: number): Promise<number> {
  const nothing = { source: partition, source_ms: 0, unsure_ms: 0, ahead_ms: AHEAD_UNKNOWN, ...KEEP_FOR_EVER, messages: [] };
  const [, , , , now_us] = await outboxReceive.call(client, { meta: keys.partition(partition) }, nothing);
  return now_us / 1000;
}

/** The server that has `partition`, unless it has the other one too: then they have one clock. One that is not known yet is like no other. */
function otherServer(client: RedisClient, other: number, partition: number): string | null {
  if (!(client instanceof Cluster)) return null;
  const masterOf = (of: number): string => client.slots[slotOf(partitionTag(of))]?.[0] ?? partitionTag(of);
  const master = masterOf(partition);
  return master === masterOf(other) ? null : master;
}

/** Removes messages that were applied; true where more waits for their destination. */
export async function acknowledge(client: RedisClient, source: number, { destination, messages }: Slice, mark: number): Promise<boolean> {
  return (await outboxAck.call(client, { meta: keys.partition(source) }, { destination, mark, messages })) === 1;
}

/** References that have been away for `after_ms` without being asked about; they are not named again for as long. */
export async function readOverdue(
  client: RedisClient,
  source: number,
  after_ms: number,
): Promise<{ asked_ms: number; references: Overdue[]; more: boolean }> {
  const [asked_ms, more, found] = await outboxOverdue.call(client, { meta: keys.partition(source) }, { after_ms, limit: MESSAGES_MAX });
  return { asked_ms, references: found.map(([destination, field, sequence]) => ({ destination, field, sequence })), more: more === 1 };
}

/** Which of these references, all with lanes of one partition, their lanes hold. */
export async function askLanes(client: RedisClient, destination: number, references: readonly Overdue[]): Promise<Answer[]> {
  const known = await outboxAsk.call(client, { meta: keys.partition(destination) }, { fields: references.map(({ field }) => field) });
  return references.map(({ field, sequence }, i) => ({ field, sequence, known: known[i] === 1 }));
}

/** Compares answers with what is wanted, unless they are too old; see lua/outbox/away.lua. */
export async function book(client: RedisClient, source: number, answers: readonly Answer[], asked_ms: number): Promise<Booked> {
  if (answers.length === 0) return { confirmed: 0, resent: 0, forgotten: 0 };
  const flat = answers.flatMap(({ field, sequence, known }) => [field, sequence, known ? 1 : 0]);
  const [confirmed, resent, forgotten] = await outboxAway.call(client, { meta: keys.partition(source) }, { asked_ms, answers: flat });
  return { confirmed, resent, forgotten };
}

/** How many messages of the slice were handed over and acknowledged. */
async function moveSlice(client: RedisClient, source: number, slice: Slice, { confirm, keep, clocks }: RelayOptions): Promise<Received> {
  const received = await receive(client, source, slice, keep, clocks);
  const { mark, done } = received;
  try {
    await confirm?.(slice.destination);
  } catch (error) {
    if (!(error instanceof NotReplicated)) throw error;
    // A slice begins with what is oldest: where that does not go away, nothing behind it ever arrives.
    if (slice.cut !== true) return { ...received, done: 0 };
  }
  if (done > 0) await acknowledge(client, source, { ...slice, messages: slice.messages.slice(0, done) }, mark);
  return received;
}

/** The result, or what went wrong; never rejects, also where it comes too late. */
async function withinPatience<T>(work: Promise<T>, patience_ms: number): Promise<T | Error> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<Error>((done) => {
    timer = setTimeout(() => done(new Error(`no answer in ${patience_ms} ms`)), patience_ms);
  });
  const ended = await Promise.race([work.catch((error: Error) => error), late]);
  clearTimeout(timer);
  return ended;
}
