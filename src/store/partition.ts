// One partition as its callback thread sees it: a turn settles outcomes, lets time pass and claims work, in one round trip.
import { keys } from './keys.ts';
import { decodePage, type StoredTask } from './records.ts';
import { execPipeline, type RedisClient } from './script.ts';
import { partitionClaim, partitionSettle, partitionTick } from './scripts.gen.ts';

/** A task in flight. `member` is its name in Redis until it is settled. */
export interface Claimed extends StoredTask {
  member: string;
  core: string;
  index: number;
  /** In a tray: the caller knows of no batch. */
  single: boolean;
  account_id: string;
  /** 1 for the first start; grows with every start. */
  attempt: number;
  /** How many of the earlier starts died with their process. */
  recoveries: number;
  timeout_s: number;
  /** When it became ready, by the partition's clock. */
  due_ms: number;
}

export type Verdict = 'c' | 'f' | 'r' | 'b';

/** What became of an attempt: completed, failed for good, to be retried after `delay_ms`, handed back uncounted. */
export interface Settlement {
  member: string;
  verdict: Verdict;
  delay_ms: number;
  /** Kept with the task; opaque to Redis. '' keeps none. */
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
}

export interface TurnRequest {
  settlements: readonly Settlement[];
  tick: boolean;
  /** null claims nothing. A number of a call is repeated until it was answered. */
  claim: { call_no: number; budget: number } | null;
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
}

/** Each part as it was asked for, or the error that it met; the parts are independent of one another. */
export interface TurnReply {
  settled: { counted: string; first_due_ms: number; now_ms: number } | Error | null;
  tick: TickReply | Error | null;
  claimed: { now_ms: number; more: boolean; tasks: Claimed[] } | Error | null;
}

/** One turn. Errors of Redis are part of the reply; nothing is thrown for them. */
export async function turn(client: RedisClient, partition: number, settings: TurnSettings, request: TurnRequest): Promise<TurnReply> {
  const meta = keys.partition(partition);
  const pipeline = client.pipeline();
  const { holder, keep_ms, tray_keep_ms } = settings;
  if (request.settlements.length > 0) {
    const outcomes: (string | number)[] = [];
    for (const s of request.settlements) outcomes.push(s.member, s.verdict, s.delay_ms, s.result);
    partitionSettle.queue(pipeline, { meta }, { holder, keep_ms, tray_keep_ms, outcomes });
  }
  if (request.tick) {
    const { silence_ms, gap_ms, recoveries_max } = settings;
    partitionTick.queue(pipeline, { meta }, { holder, silence_ms, gap_ms, keep_ms, tray_keep_ms, recoveries_max });
  }
  if (request.claim !== null) {
    const { call_no, budget } = request.claim;
    partitionClaim.queueBuffer(pipeline, { meta }, { holder, call_no, budget, grace_ms: settings.grace_ms });
  }
  let replies: readonly (readonly [Error | null, unknown])[];
  try {
    replies = await execPipeline(client, pipeline);
  } catch (error) {
    const failed = error instanceof Error ? error : new Error(String(error));
    return {
      settled: request.settlements.length > 0 ? failed : null,
      tick: request.tick ? failed : null,
      claimed: request.claim ? failed : null,
    };
  }
  let at = 0;
  const next = <T>(asked: boolean, read: (reply: unknown) => T): T | Error | null => {
    if (!asked) return null;
    const [error, reply] = replies[at++] ?? [new Error('no reply'), null];
    return error ?? read(reply);
  };
  return {
    settled: next(request.settlements.length > 0, readSettled),
    tick: next(request.tick, readTick),
    claimed: next(request.claim !== null, readClaimed),
  };
}

function readSettled(reply: unknown): { counted: string; first_due_ms: number; now_ms: number } {
  const [now_ms, , first_due_ms, counted] = reply as [number, number, number, string];
  return { now_ms, first_due_ms, counted };
}

function readTick(reply: unknown): TickReply {
  const [now_ms, next_ms, more, promoted, expired, recovered, deleted, ready] = reply as number[];
  return {
    now_ms: now_ms ?? 0,
    next_ms: next_ms ?? 0,
    more: more === 1,
    promoted: promoted ?? 0,
    expired: expired ?? 0,
    recovered: recovered ?? 0,
    deleted: deleted ?? 0,
    ready: ready === 1,
  };
}

type RunReply = [
  core: Buffer,
  account: Buffer,
  from: number,
  to: number,
  attempt: number,
  recoveries: number,
  timeout_s: number,
  due_ms: number,
  flow: Buffer,
  base: number,
  first_page: number,
  single: number,
  pages: (Buffer | null)[],
];

function readClaimed(reply: unknown): { now_ms: number; more: boolean; tasks: Claimed[] } {
  const [now_ms, more, runs] = reply as [number, number, RunReply[]];
  const tasks: Claimed[] = [];
  for (const run of runs) readRun(run, tasks);
  return { now_ms, more: more === 1, tasks };
}

const PAGE_SHIFT = 4; // 16 tasks a page, as in lua/lib/append.lua

function readRun(run: RunReply, tasks: Claimed[]): void {
  const [core_bytes, account_bytes, from, to, attempt, recoveries, timeout_s, due_ms, flow, base, first_page, single, pages] = run;
  const core = core_bytes.toString('latin1');
  const account_id = account_bytes.toString('latin1');
  const tail = `,${attempt},${recoveries},${timeout_s},${flow.toString('latin1')}`;
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
    const stored = page[local & ((1 << PAGE_SHIFT) - 1)];
    if (stored === undefined) continue; // not in its segment: the self-audit hands it back
    tasks.push({
      ...stored,
      member: `${core},${index}${tail}`,
      core,
      index,
      single: single === 1,
      account_id,
      attempt,
      recoveries,
      timeout_s,
      due_ms,
    });
  }
}

/** What Redis thinks that this holder has in flight; at most `max` names. */
export async function readActive(client: RedisClient, partition: number, holder: string, max: number): Promise<string[]> {
  return client.zrange(keys.active(partition, holder), 0, String(max - 1));
}

/** Makes the keys that scripts declare, so that they exist for ever. */
export async function preparePartitions(client: RedisClient, partitions: number): Promise<void> {
  await Promise.all(Array.from({ length: partitions }, (_, p) => client.hsetnx(keys.partition(p), 'n', String(p))));
}
