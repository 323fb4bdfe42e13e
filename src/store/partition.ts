// One partition as its callback thread sees it: a turn settles outcomes, lets time pass and claims work, in one round trip.
import { groupBy } from '../base/group-by.ts';
import { type ClaimReply, type Flight, readClaimed } from './claimed.ts';
import { keys } from './keys.ts';
import { type Offer, type OfferReply, queueOffer, readOffer } from './offers.ts';
import type { Slice } from './outbox.ts';
import { encodeResults, PAGE_MASK, PAGE_SHIFT } from './records.ts';
import { execPipeline, type RedisClient } from './script.ts';
import { partitionClaim, partitionGrant, partitionLate, partitionSettle, partitionTick } from './scripts.gen.ts';

export { type Claimed, type ClaimReply, type Flight, type FlightLimit, type NotesParent, readActive } from './claimed.ts';

/** Limiters in one call, and the tasks that it lets start: about a millisecond of Redis. */
const LANES_MAX = 16;
const GRANTS_MAX = 500;
/** Starts are granted so long before their time at most: as long as a grant takes to its task, on a machine that is busy. Most limiters go half as far (lua/lib/grant.lua). */
export const GRANT_AHEAD_MS = 60;

export type Verdict = 'c' | 'f' | 'u' | 'r' | 'b' | 's' | 'k';

/** Whether the task has ended with it. */
export function isFinal(verdict: Verdict): boolean {
  return verdict === 'c' || verdict === 'f' || verdict === 'u';
}

/**
 * What became of an attempt: completed, failed for good, the same without having started (`u`), to be retried after `delay_ms`, handed back before it started, stopped
 * under way, not counted since its limiter closes for a while.
 */
export interface Settlement {
  flight: Flight;
  index: number;
  verdict: Verdict;
  delay_ms: number;
  /** Kept with the task: JSON, see delivery/verdict.ts. '' keeps none. */
  result: string;
  /** For its limiter: points that it used beyond what it took, and how long the limiter is to be closed. */
  points?: number;
  cool_ms?: number;
}

export interface TurnSettings {
  holder: string;
  silence_ms: number;
  gap_ms: number;
  grace_ms: number;
  keep_ms: number;
  tray_keep_ms: number;
  recoveries_max: number;
  /** Memory is short: the oldest finished batches go before their time. Changes while it runs; false where absent. */
  pressure?: boolean;
}

export interface ClaimRequest {
  call_no: number;
  /** Tasks at most, but for what a page rounds up to. */
  budget: number;
  /** Tasks of one origin at most. */
  room: number;
  /** Origins that have room again; `*` is all. */
  unpark: readonly string[];
  /** Origins with less room than others; none = parked where met. */
  rooms: readonly (readonly [origin: string, tasks: number])[];
  /** Notifications at most, but for what a page rounds up to. */
  notes: number;
  /** Tasks at their last chance at most; others wait at the end of their line. -1: the claim ends where it meets one. */
  suspects: number;
}

/** Units of one grant that were used a while after it. */
export interface Late {
  lane: string;
  granted_ms: string;
  /** After that, in whole ms. */
  late_ms: number;
  units: number;
}

export interface TurnRequest {
  settlements: readonly Settlement[];
  tick: boolean;
  /** null claims nothing. A number of a call is repeated until it was answered. */
  claim: ClaimRequest | null;
  /** Lets tasks of limiters start. */
  grant?: boolean;
  /** Starts that their limiters are to count anew, since they were late. */
  lates?: readonly Late[];
  /** What becomes of the offer to take the next single task, which is what the claim of that number would bring; see lua/lib/free.lua. It ends before the claim, and is made after all else. */
  offer?: Offer | null;
}

export interface TickReply {
  now_ms: number;
  /** When something is due next, by the partition's clock; 0 = nothing known. */
  next_ms: number;
  more: boolean;
  promoted: number;
  expired: number;
  recovered: number;
  deleted: number;
  ready: boolean;
  /** Of the deleted batches those whose time had not come. */
  early: number;
  /** Origins for which work waits here until they are named in `unpark`. */
  parked: number;
  /** Messages wait to be carried over. */
  messages: boolean;
  /** Lanes should be asked about what has been away for long. */
  away: boolean;
  /** A limiter has something to do. */
  lanes: boolean;
  /** There is no work, neither now nor at a time that is known. Batches that ended may lie there. */
  empty: boolean;
  /** The caller has work in flight. */
  mine: boolean;
}

/** `left` are settlements that were not counted though their task is still in flight; they are to be sent again. */
export interface SettleReply {
  now_ms: number;
  first_due_ms: number;
  left: Settlement[];
  /** Work became ready, notifications among it. */
  ready: boolean;
  messages: boolean;
}

/** What one limiter let go. */
export interface LaneGrant {
  /** Its id without the prefix, whose it is and its name; the last two are '' where its record is lost. */
  lane: string;
  account: string;
  name: string;
  /** The letter of its kind. */
  kind: string;
  granted: number;
  expired: number;
  /** Slots whose holder never said that it ended. */
  reclaimed: number;
  /** Tasks that still wait. */
  waiting: number;
  /** How long granted tasks had waited: ms, tasks, ms, tasks, … */
  waits: number[];
}

export interface GrantReply {
  now_ms: number;
  /** When a limiter has something to do next, by the partition's clock; 0 = never, as far as is known. */
  next_ms: number;
  more: boolean;
  /** Some wait to be carried over that are not among `slices`. */
  messages: boolean;
  lanes: LaneGrant[];
  /** What can be carried over at once, not dated yet. */
  slices: Pick<Slice, 'destination' | 'messages'>[];
}

/** Each part as it was asked for, or the error that it met; the parts are independent of one another. */
export interface TurnReply {
  settled: SettleReply | Error | null;
  tick: TickReply | Error | null;
  claimed: ClaimReply | Error | null;
  granted: GrantReply | Error | null;
  /** True where limiters will be told. */
  told: boolean | Error | null;
  offered: OfferReply | Error | null;
}

type Answered<T> = { [K in keyof T]: Exclude<T[K], Error> };

/** The parts that were answered, and an error of those that were not; `messages`: some wait to be carried over that no part brings along. */
export function answersOf(reply: TurnReply): Answered<TurnReply> & { messages: boolean; error: Error | null } {
  let error: Error | null = null;
  const answer = <T>(part: T | Error | null): T | null => {
    if (!(part instanceof Error)) return part;
    error = part;
    return null;
  };
  const settled = answer(reply.settled);
  const tick = answer(reply.tick);
  const claimed = answer(reply.claimed);
  const granted = answer(reply.granted);
  const told = answer(reply.told);
  const offered = answer(reply.offered);
  const messages =
    settled?.messages === true || tick?.messages === true || claimed?.messages === true || told === true || granted?.messages === true;
  return { settled, tick, claimed, granted, told, offered, messages, error };
}

/** One turn. Whatever fails is part of the reply and nothing is thrown, so that the caller keeps what it sent and asks again. */
export async function turn(client: RedisClient, partition: number, settings: TurnSettings, request: TurnRequest): Promise<TurnReply> {
  try {
    return await tryTurn(client, partition, settings, request);
  } catch (error) {
    const { lates = [] } = request;
    const failed = error instanceof Error ? error : new Error(String(error));
    return {
      settled: request.settlements.length > 0 ? failed : null,
      tick: request.tick ? failed : null,
      claimed: request.claim ? failed : null,
      granted: request.grant === true ? failed : null,
      told: lates.length > 0 ? failed : null,
      offered: request.offer ? failed : null,
    };
  }
}

async function tryTurn(client: RedisClient, partition: number, settings: TurnSettings, request: TurnRequest): Promise<TurnReply> {
  const meta = keys.partition(partition);
  const pipeline = client.pipeline();
  const { holder, keep_ms, tray_keep_ms } = settings;
  const groups = groupByFlight(request.settlements);
  const { offer = null } = request;
  if (offer?.does === 'end') queueOffer(pipeline, meta, settings, offer);
  if (groups.length > 0) {
    partitionSettle.queue(pipeline, { meta }, { holder, keep_ms, tray_keep_ms, parts: groups.flatMap(groupParts) });
  }
  if (request.tick) {
    const { silence_ms, gap_ms, recoveries_max } = settings;
    const pressure = settings.pressure === true ? 1 : 0;
    partitionTick.queue(pipeline, { meta }, { holder, silence_ms, gap_ms, keep_ms, tray_keep_ms, recoveries_max, pressure });
  }
  if (request.claim !== null) {
    const { call_no, budget, room, unpark, rooms, notes, suspects } = request.claim;
    const { recoveries_max, grace_ms } = settings;
    const limits = [unpark.length, ...unpark, rooms.length, ...rooms.flat()];
    partitionClaim.queueBuffer(pipeline, { meta }, { holder, call_no, budget, room, recoveries_max, grace_ms, notes, suspects, limits });
  }
  if (request.grant === true)
    partitionGrant.queue(pipeline, { meta }, { lanes_max: LANES_MAX, tasks_max: GRANTS_MAX, ahead_us: GRANT_AHEAD_MS * 1_000 });
  const lates = lateParts(request.lates ?? []);
  if (lates.length > 0) partitionLate.queue(pipeline, { meta }, { lates });
  if (offer !== null && offer.does !== 'end') queueOffer(pipeline, meta, settings, offer);
  const replies = await execPipeline(client, pipeline);
  let at = 0;
  const next = <T>(asked: boolean, read: (reply: unknown) => T): T | Error | null => {
    if (!asked) return null;
    const [error, reply] = replies[at++] ?? [new Error('no reply'), null];
    return error ?? read(reply);
  };
  const over = next(offer?.does === 'end', readOffer);
  const parts: TurnReply = {
    settled: next(groups.length > 0, (settled) => readSettled(settled, groups)),
    tick: next(request.tick, readTick),
    claimed: next(request.claim !== null, readClaimed),
    granted: next(request.grant === true, readGranted),
    told: next(lates.length > 0, () => true),
    offered: next(offer !== null && offer.does !== 'end', readOffer) ?? over,
  };
  // A claim finds what the two before it made ready, unless their texts had to be sent and they ran after it.
  const late = replies.some(([, , ran_late]) => ran_late);
  if (late && parts.claimed !== null && !(parts.claimed instanceof Error)) parts.claimed.more = true;
  return parts;
}

/** The arguments of late starts, those of one grant and as late as one another together. */
function lateParts(lates: readonly Late[]): (string | number)[] {
  const grants = new Map<string, Late>();
  for (const late of lates) {
    const name = `${late.lane} ${late.granted_ms} ${late.late_ms}`;
    grants.set(name, { ...late, units: late.units + (grants.get(name)?.units ?? 0) });
  }
  return [...grants.values()].flatMap(({ lane, granted_ms, late_ms, units }) => [lane, granted_ms, units, late_ms]);
}

/**
 * Settlements of one flight, in the order of their tasks, one of each: after a failover that forgot its claim, a task may have
 * been started twice under one name.
 */
function groupByFlight(settlements: readonly Settlement[]): Settlement[][] {
  return [...groupBy(settlements, ({ flight }) => flight.name).values()].map((group) => {
    group.sort((a, b) => a.index - b.index);
    return group.filter(({ index }, i) => index !== group[i - 1]?.index);
  });
}

/** The arguments of one group: name, runs of neighbours with one verdict, results by page, delays. */
function groupParts(group: readonly Settlement[]): (string | number | Buffer)[] {
  const runs: (string | number)[] = [];
  const delays: number[] = [];
  const pages: (string | Buffer)[] = [];
  let first = group[0] as Settlement;
  let tasks = 0;
  let page = -1;
  let records: [place: number, json: string][] = [];
  const { base, name } = first.flight;
  for (const one of group) {
    if (tasks > 0 && one.verdict === first.verdict && one.index === first.index + tasks) {
      tasks += 1;
    } else {
      if (tasks > 0) runs.push(first.index, tasks, first.verdict);
      first = one;
      tasks = 1;
    }
    if (!isFinal(one.verdict)) delays.push(one.index, one.delay_ms);
    if (one.result === '') continue;
    const local = one.index - base;
    if (local >> PAGE_SHIFT !== page) {
      if (records.length > 0) pages.push(`r${page}`, encodeResults(records));
      page = local >> PAGE_SHIFT;
      records = [];
    }
    records.push([local & PAGE_MASK, one.result]);
  }
  runs.push(first.index, tasks, first.verdict);
  if (records.length > 0) pages.push(`r${page}`, encodeResults(records));
  const parts = [name, runs.length / 3, ...runs, pages.length / 2, ...pages, delays.length / 2, ...delays];
  if (first.flight.limit === null) return parts;
  const told = limiterParts(group);
  return [...parts, told.length / 2, ...told];
}

/** What its limiter must know of a group. */
function limiterParts(group: readonly Settlement[]): (string | number)[] {
  const points = group.reduce((sum, one) => sum + (one.points ?? 0), 0);
  const cool_ms = Math.max(...group.map((one) => one.cool_ms ?? 0));
  return [...(points === 0 ? [] : ['points', points]), ...(cool_ms === 0 ? [] : ['cool', cool_ms])];
}

const GONE = '-';

function readSettled(reply: unknown, groups: readonly (readonly Settlement[])[]): SettleReply {
  const [now_ms, first_due_ms, flags, ready, messages] = reply as [number, number, string[], number, number];
  const left: Settlement[] = [];
  for (const [i, group] of groups.entries()) {
    const states = flags[i] ?? GONE;
    if (states === '' || states === GONE) continue;
    const from = Number(group[0]?.flight.name.split(',', 2)[1]);
    // A task of a range that has been started again since is in flight under another name.
    const in_flight = states.length === 1 ? /[pP]/ : /p/;
    left.push(...group.filter(({ index }) => in_flight.test(states[index - from] ?? '')));
  }
  return { now_ms, first_due_ms, left, ready: ready === 1, messages: messages === 1 };
}

function readTick(reply: unknown): TickReply {
  const [now_ms, next_ms, more, promoted, expired, recovered, deleted, ready, early, parked, flags = 0] = reply as number[];
  return {
    now_ms: now_ms ?? 0,
    next_ms: next_ms ?? 0,
    more: more === 1,
    promoted: promoted ?? 0,
    expired: expired ?? 0,
    recovered: recovered ?? 0,
    deleted: deleted ?? 0,
    ready: ready === 1,
    early: early ?? 0,
    parked: parked ?? 0,
    messages: (flags & 1) !== 0,
    away: (flags & 2) !== 0,
    lanes: (flags & 4) !== 0,
    empty: (flags & 8) !== 0,
    mine: (flags & 16) !== 0,
  };
}

function readGranted(reply: unknown): GrantReply {
  const [now_ms, next_ms, more, messages, lanes, slices] = reply as [number, string, number, number, LaneReply[], [number, string[]][]];
  return {
    now_ms,
    next_ms: Number(next_ms),
    more: more === 1,
    messages: messages === 1,
    lanes: lanes.map(([lane, kind, granted, expired, reclaimed, waiting, waits, account, name]) => {
      return { lane, kind, granted, expired, reclaimed, waiting, waits, account, name };
    }),
    slices: slices.map(([destination, texts]) => ({ destination, messages: texts })),
  };
}

type LaneReply = [
  lane: string,
  kind: string,
  granted: number,
  expired: number,
  reclaimed: number,
  waiting: number,
  waits: number[],
  account: string,
  name: string,
];

/** Makes the keys that scripts declare, so that they exist for ever. */
export async function preparePartitions(client: RedisClient, partitions: number): Promise<void> {
  await Promise.all(Array.from({ length: partitions }, (_, p) => client.hsetnx(keys.partition(p), 'n', String(p))));
}
