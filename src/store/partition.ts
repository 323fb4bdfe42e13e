// One partition as its callback thread sees it: a turn settles outcomes, lets time pass and claims work, in one round trip.
import { keys } from './keys.ts';
import { coreOfNotes } from './notes.ts';
import { decodePage, encodeResult, PAGE_MASK, PAGE_SHIFT, type StoredTask } from './records.ts';
import { execPipeline, type RedisClient } from './script.ts';
import { partitionClaim, partitionSettle, partitionTick } from './scripts.gen.ts';

/** What is in flight under one name in Redis: tasks that were started together. */
export interface Flight {
  /** Its name in `active:<holder>`; see lua/lib/ready.lua. */
  name: string;
  core: string;
  /** Hash of the origin that its tasks go to. */
  origin: string;
  /** First index of the segment. */
  base: number;
}

/** A task in flight. */
export interface Claimed extends StoredTask {
  flight: Flight;
  index: number;
  /** In a tray: the caller knows of no batch. */
  single: boolean;
  account_id: string;
  /** 1 for the first start; grows with every start. */
  attempt: number;
  /** How many of the earlier starts died with their process. */
  recoveries: number;
  /** When it became ready, by the partition's clock. */
  due_ms: number;
  /** Of a notification: the batch that it tells of; the task is one of its companion. */
  of: NotesParent | null;
}

/** What notifications are made from, beside their records. */
export interface NotesParent {
  core: string;
  /** What the caller gave besides tasks, JSON; null where the batch is gone. */
  doc: string | null;
  created_ms: number;
}

export type Verdict = 'c' | 'f' | 'r' | 'b';

/** What became of an attempt: completed, failed for good, to be retried after `delay_ms`, handed back uncounted. */
export interface Settlement {
  flight: Flight;
  index: number;
  verdict: Verdict;
  delay_ms: number;
  /** Kept with the task: JSON, see delivery/verdict.ts. '' keeps none. */
  result: string;
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
}

export interface TurnRequest {
  settlements: readonly Settlement[];
  tick: boolean;
  /** null claims nothing. A number of a call is repeated until it was answered. */
  claim: ClaimRequest | null;
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
}

/** `left` are settlements that were not counted though their task is still in flight; they are to be sent again. */
export interface SettleReply {
  now_ms: number;
  first_due_ms: number;
  left: Settlement[];
  /** Work became ready, notifications among it. */
  ready: boolean;
}

export interface ClaimReply {
  now_ms: number;
  more: boolean;
  /** Notifications wait for want of places; more of them than were asked for are ready. */
  more_notes: boolean;
  /** Earliest time among what turned out to be due later; 0 = none. */
  first_due_ms: number;
  /** Origins for which work waits until they are named in `unpark`. */
  parked: string[];
  tasks: Claimed[];
}

/** Each part as it was asked for, or the error that it met; the parts are independent of one another. */
export interface TurnReply {
  settled: SettleReply | Error | null;
  tick: TickReply | Error | null;
  claimed: ClaimReply | Error | null;
}

/** One turn. Whatever fails is part of the reply and nothing is thrown, so that the caller keeps what it sent and asks again. */
export async function turn(client: RedisClient, partition: number, settings: TurnSettings, request: TurnRequest): Promise<TurnReply> {
  try {
    return await tryTurn(client, partition, settings, request);
  } catch (error) {
    const failed = error instanceof Error ? error : new Error(String(error));
    return {
      settled: request.settlements.length > 0 ? failed : null,
      tick: request.tick ? failed : null,
      claimed: request.claim ? failed : null,
    };
  }
}

async function tryTurn(client: RedisClient, partition: number, settings: TurnSettings, request: TurnRequest): Promise<TurnReply> {
  const meta = keys.partition(partition);
  const pipeline = client.pipeline();
  const { holder, keep_ms, tray_keep_ms } = settings;
  const groups = groupByFlight(request.settlements);
  if (groups.length > 0) {
    partitionSettle.queue(pipeline, { meta }, { holder, keep_ms, tray_keep_ms, parts: groups.flatMap(groupParts) });
  }
  if (request.tick) {
    const { silence_ms, gap_ms, recoveries_max } = settings;
    const pressure = settings.pressure === true ? 1 : 0;
    partitionTick.queue(pipeline, { meta }, { holder, silence_ms, gap_ms, keep_ms, tray_keep_ms, recoveries_max, pressure });
  }
  if (request.claim !== null) {
    const { call_no, budget, room, unpark, rooms, notes } = request.claim;
    const limits = [unpark.length, ...unpark, rooms.length, ...rooms.flat()];
    partitionClaim.queueBuffer(pipeline, { meta }, { holder, call_no, budget, room, grace_ms: settings.grace_ms, notes, limits });
  }
  const replies = await execPipeline(client, pipeline);
  let at = 0;
  const next = <T>(asked: boolean, read: (reply: unknown) => T): T | Error | null => {
    if (!asked) return null;
    const [error, reply] = replies[at++] ?? [new Error('no reply'), null];
    return error ?? read(reply);
  };
  const parts: TurnReply = {
    settled: next(groups.length > 0, (settled) => readSettled(settled, groups)),
    tick: next(request.tick, readTick),
    claimed: next(request.claim !== null, readClaimed),
  };
  // A claim finds what the two before it made ready, unless their texts had to be sent and they ran after it.
  const late = replies.some(([, , ran_late]) => ran_late);
  if (late && parts.claimed !== null && !(parts.claimed instanceof Error)) parts.claimed.more = true;
  return parts;
}

/** Settlements of one flight, in the order of their tasks. */
function groupByFlight(settlements: readonly Settlement[]): Settlement[][] {
  const groups = new Map<string, Settlement[]>();
  for (const settlement of settlements) {
    const group = groups.get(settlement.flight.name);
    if (group === undefined) groups.set(settlement.flight.name, [settlement]);
    else group.push(settlement);
  }
  const all = [...groups.values()];
  for (const group of all) group.sort((a, b) => a.index - b.index);
  return all;
}

/** The arguments of one group: name, runs of neighbours with one verdict, results by page, delays. */
function groupParts(group: readonly Settlement[]): (string | number | Buffer)[] {
  const runs: (string | number)[] = [];
  const delays: number[] = [];
  const pages: (string | Buffer)[] = [];
  let first = group[0] as Settlement;
  let tasks = 0;
  let page = -1;
  let records: Buffer[] = [];
  const { base, name } = first.flight;
  for (const one of group) {
    if (tasks > 0 && one.verdict === first.verdict && one.index === first.index + tasks) {
      tasks += 1;
    } else {
      if (tasks > 0) runs.push(first.index, tasks, first.verdict);
      first = one;
      tasks = 1;
    }
    if (one.verdict === 'r' || one.verdict === 'b') delays.push(one.index, one.delay_ms);
    if (one.result === '') continue;
    const local = one.index - base;
    if (local >> PAGE_SHIFT !== page) {
      if (records.length > 0) pages.push(`r${page}`, Buffer.concat(records));
      page = local >> PAGE_SHIFT;
      records = [];
    }
    records.push(encodeResult(local & PAGE_MASK, one.result));
  }
  runs.push(first.index, tasks, first.verdict);
  if (records.length > 0) pages.push(`r${page}`, Buffer.concat(records));
  return [name, runs.length / 3, ...runs, pages.length / 2, ...pages, delays.length / 2, ...delays];
}

const GONE = '-';

function readSettled(reply: unknown, groups: readonly (readonly Settlement[])[]): SettleReply {
  const [now_ms, first_due_ms, flags, ready] = reply as [number, number, string[], number];
  const left: Settlement[] = [];
  for (const [i, group] of groups.entries()) {
    const states = flags[i] ?? GONE;
    if (states === '' || states === GONE) continue;
    const from = Number(group[0]?.flight.name.split(',')[1]);
    // A task of a range that has been started again since is in flight under another name.
    const in_flight = states.length === 1 ? /[pP]/ : /p/;
    left.push(...group.filter(({ index }) => in_flight.test(states[index - from] ?? '')));
  }
  return { now_ms, first_due_ms, left, ready: ready === 1 };
}

function readTick(reply: unknown): TickReply {
  const [now_ms, next_ms, more, promoted, expired, recovered, deleted, ready, early, parked] = reply as number[];
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
  };
}

type RunReply = [
  name: Buffer,
  core: Buffer,
  account: Buffer,
  from: number,
  to: number,
  attempt: number,
  recoveries: number,
  due_ms: number,
  base: number,
  first_page: number,
  kind: number,
  pages: (Buffer | null)[],
  parent?: [doc: Buffer | null, created_ms: Buffer | null],
];

/** Kinds of what a run belongs to; as lua/partition/claim.lua has them. */
const TRAY = 1;
const NOTES = 2;

function readClaimed(reply: unknown): ClaimReply {
  const [now_ms, more, first_due_ms, parked, runs] = reply as [number, number, number, Buffer[], RunReply[]];
  const tasks: Claimed[] = [];
  const parents = new Map<string, NotesParent>();
  for (const run of runs) readRun(run, tasks, parents);
  const names = parked.map((origin) => origin.toString('latin1'));
  return { now_ms, more: more === 1, more_notes: more === 2, first_due_ms, parked: names, tasks };
}

function originOf(name: string): string {
  return name.slice(name.lastIndexOf(':') + 1);
}

function readRun(run: RunReply, tasks: Claimed[], parents: Map<string, NotesParent>): void {
  const [name, core, account, from, to, attempt, recoveries, due_ms, base, first_page, kind, pages] = run;
  const text = name.toString('latin1');
  const flight = { name: text, core: core.toString('latin1'), origin: originOf(text), base };
  const account_id = account.toString('latin1');
  const single = kind === TRAY;
  const of = kind === NOTES ? parentOf(run, flight.core, parents) : null;
  let page_at = -1;
  let page: StoredTask[] = [];
  for (let index = from; index <= to; index++) {
    const local = index - base;
    const wanted = (local >> PAGE_SHIFT) - first_page;
    if (wanted !== page_at) {
      const bytes = pages[wanted];
      page = bytes ? decodePage(bytes) : [];
      page_at = wanted;
    }
    const stored = page[local & PAGE_MASK];
    if (stored === undefined) continue; // not in its segment: the lease ends some day, and the task is `worker_lost`
    tasks.push({ head: stored.head, payload: stored.payload, flight, index, single, account_id, attempt, recoveries, due_ms, of });
  }
}

/** The batch comes with the first run of its companion. */
function parentOf(run: RunReply, notes_core: string, parents: Map<string, NotesParent>): NotesParent {
  let parent = parents.get(notes_core);
  if (parent === undefined) {
    const [doc, created_ms] = run[12] ?? [null, null];
    parent = { core: coreOfNotes(notes_core), doc: doc?.toString() ?? null, created_ms: Number(created_ms ?? 0) };
    parents.set(notes_core, parent);
  }
  return parent;
}

/** What Redis has in flight for this holder, at most `max` names, each with the tasks it stands for. */
export async function readActive(
  client: RedisClient,
  partition: number,
  holder: string,
  max: number,
): Promise<{ flight: Flight; from: number; to: number }[]> {
  const names = await client.zrange(keys.active(partition, holder), 0, String(max - 1));
  return names.map((name) => {
    const [core = '', from, to] = name.split(',');
    return { flight: { name, core, origin: originOf(name), base: 0 }, from: Number(from), to: Number(to) };
  });
}

/** Makes the keys that scripts declare, so that they exist for ever. */
export async function preparePartitions(client: RedisClient, partitions: number): Promise<void> {
  await Promise.all(Array.from({ length: partitions }, (_, p) => client.hsetnx(keys.partition(p), 'n', String(p))));
}
