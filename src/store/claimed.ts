// What a claim brings: tasks in flight, and how they are named there.
import { keys } from './keys.ts';
import { coreOfNotes } from './notes.ts';
import { decodePage, PAGE_MASK, PAGE_SHIFT, type StoredTask } from './records.ts';
import type { RedisClient } from './script.ts';

/** What is in flight under one name in Redis: tasks that were started together. */
export interface Flight {
  /** Its name in `active:<holder>`; see lua/lib/ready.lua. */
  name: string;
  core: string;
  /** Hash of the origin that its tasks go to. */
  origin: string;
  /** First index of the segment. */
  base: number;
  /** What it took from a rate limiter. */
  limit: FlightLimit | null;
}

/** The rate limiter that let tasks start. */
export interface FlightLimit {
  /** The letter of its kind. */
  kind: string;
  /** Units that each task took. */
  cost: number;
  /** The limiter's id without its prefix, and when it let them start, by its clock. */
  lane: string;
  granted_ms: string;
  /** When the task first became due, over all its attempts, by its partition's clock. */
  first_ms: number;
  /** How long after that it may be started. */
  life_ms: number;
  /** It had so much left that no other start is too near to this, however late that is. */
  spare: boolean;
  /** It closes for as long as its target's Retry-After says. */
  cools: boolean;
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
  /** How long ago its rate limiter let it start; less than 0 where that time is to come, 0 where it has no limiter. */
  granted_age_ms: number;
  /** Of a notification: the batch that it tells of; the task is one of its companion. */
  of: NotesParent | null;
}

const ACTIVE_MAX = 20_000;
/** Nothing is claimed so long before its time; see lua/lib/delayed.lua. */
const AHEAD_MS_MAX = 100;

/**
 * In how many ms what was claimed at `now_ms` may start: when its limiter lets it, and its own time is there. One whose time seems far was
 * ready before the clock was set back.
 */
export function startsIn({ granted_age_ms, due_ms }: Claimed, now_ms: number): number {
  const due_in_ms = due_ms - now_ms;
  return Math.max(0, -granted_age_ms, due_in_ms > AHEAD_MS_MAX ? 0 : due_in_ms);
}

/** What notifications are made from, beside their records. */
export interface NotesParent {
  core: string;
  /** What the caller gave besides tasks, JSON; null where the batch is gone. */
  doc: string | null;
  created_ms: number;
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
  messages: boolean;
  /** Of tasks at their last chance: 1 it ended where it met one, since it was not asked whether it may bring one; 2 it brought or put off some. */
  suspects: 0 | 1 | 2;
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
  age_us: number,
  parent?: [doc: Buffer | null, created_ms: Buffer | null],
];

type ClaimedReply = [
  now_ms: number,
  more: number,
  first_due_ms: number,
  parked: Buffer[],
  runs: RunReply[],
  messages: number,
  suspects: 0 | 1 | 2,
];

/** Kinds of what a run belongs to; as lua/partition/claim.lua has them. */
const TRAY = 1;
const NOTES = 2;

export function readClaimed(reply: unknown): ClaimReply {
  const [now_ms, more, first_due_ms, parked, runs, messages, suspects] = reply as ClaimedReply;
  const tasks: Claimed[] = [];
  const parents = new Map<string, NotesParent>();
  for (const run of runs) readRun(run, tasks, parents);
  const names = parked.map((origin) => origin.toString('latin1'));
  return {
    now_ms,
    more: more === 1,
    more_notes: more === 2,
    first_due_ms,
    parked: names,
    tasks,
    messages: messages === 1,
    suspects,
  };
}

/** A task that was handed over: the answer to a claim that was not sent. */
export interface Pushed {
  holder: string;
  call_no: number;
  now_ms: number;
  task: Claimed;
}

/** What lua/lib/free.lua publishes. Throws where it is something else. */
export function readPushed(message: string): Pushed {
  const line_end = message.indexOf('\n');
  const [holder = '', call_no, now_ms, due_ms, account_id = '', index, base, name = ''] = message.slice(0, line_end).split(' ', 8);
  const [stored] = decodePage(Buffer.from(message.slice(line_end + 1), 'latin1'));
  if (stored === undefined) throw new Error('no task was handed over');
  const flight = flightOf(name, Number(base));
  const { head, payload } = stored;
  // As `readRun` writes it, without spreading: an object that is spread together costs as much as all else here.
  const task: Claimed = {
    head,
    payload,
    flight,
    index: Number(index),
    single: true,
    account_id,
    attempt: 1,
    recoveries: 0,
    due_ms: Number(due_ms),
    granted_age_ms: 0,
    of: null,
  };
  return { holder, call_no: Number(call_no), now_ms: Number(now_ms), task };
}

/** A flight from its name in Redis. */
function flightOf(name: string, base: number): Flight {
  const core = name.slice(0, name.indexOf(','));
  const origin_at = name.lastIndexOf(':') + 1;
  const limit_at = name.indexOf(';', origin_at);
  if (limit_at < 0) return { name, core, origin: name.slice(origin_at), base, limit: null };
  const [lane = '', kind = '', cost = '', first_ms, , , granted_ms = '', life_ms] = name.slice(limit_at + 1).split(',', 8);
  const marks = { spare: cost.startsWith('0'), cools: kind.endsWith('!') };
  const limit = {
    lane,
    kind: kind.charAt(0),
    cost: Number(cost),
    granted_ms,
    first_ms: Number(first_ms),
    life_ms: Number(life_ms),
    ...marks,
  };
  return { name, core, origin: name.slice(origin_at, limit_at), base, limit };
}

function readRun(run: RunReply, tasks: Claimed[], parents: Map<string, NotesParent>): void {
  const [name, , account, from, to, attempt, recoveries, due_ms, base, first_page, kind, pages, age_us] = run;
  const flight = flightOf(name.toString('latin1'), base);
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
    const { head, payload } = stored;
    tasks.push({ head, payload, flight, index, single, account_id, attempt, recoveries, due_ms, granted_age_ms: age_us / 1000, of });
  }
}

/** The batch comes with the first run of its companion. */
function parentOf(run: RunReply, notes_core: string, parents: Map<string, NotesParent>): NotesParent {
  let parent = parents.get(notes_core);
  if (parent === undefined) {
    const [doc, created_ms] = run[13] ?? [null, null];
    parent = { core: coreOfNotes(notes_core), doc: doc?.toString() ?? null, created_ms: Number(created_ms ?? 0) };
    parents.set(notes_core, parent);
  }
  return parent;
}

/** What Redis has in flight for this holder, at most 20,000 names, each with the tasks it stands for. */
export async function readActive(
  client: RedisClient,
  partition: number,
  holder: string,
): Promise<{ flight: Flight; from: number; to: number }[]> {
  const names = await client.zrange(keys.active(partition, holder), 0, String(ACTIVE_MAX - 1));
  return names.map((name) => {
    const [, from, to] = name.split(',', 3);
    return { flight: flightOf(name, 0), from: Number(from), to: Number(to) };
  });
}
