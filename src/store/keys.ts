// The key table: every key in Redis, its type and what it holds. No other file spells a key.
//
// Keys of a partition all begin with its root `sluice:{p<n>.<x>}:` and so live in one slot; scripts get the root's
// `m` key as their declared key and build the others from the same table in lua/lib/keys.lua. What a caller chose
// (account names, idempotency keys, origins) appears in a key only as a hash.
import { createHash } from 'node:crypto';
import { shortHash } from '../base/id.ts';
import { HOMES, homeTag, PARTITIONS_MAX, partitionTag } from './tags.ts';

const roots: string[] = [];

/** `sluice:{p<n>.<x>}:`, the beginning of all keys of partition `n`. */
function root(partition: number): string {
  roots[partition] ??= `sluice:{${partitionTag(partition)}}:`;
  return roots[partition];
}

/** The partition of a root; null where it is none. */
export function partitionOfRoot(text: string): number | null {
  const partition = Number(/^sluice:\{p(\d+)\./.exec(text)?.[1] ?? Number.NaN);
  return partition < PARTITIONS_MAX && root(partition) === text ? partition : null;
}

/** Keys of a partition. `core`: a batch id without its prefix. */
export const keys = {
  /** hash: `last` and `thaw` times of the last tick that had work, and of the last after a gap (ms); `ready:<class>` tasks queued; `early` rank in `deadlines` from which the next tick under memory pressure looks; `suspect` when the last task at its last chance is due; `stale` where `delayed` may hold what is over, and `scan` how far the look for it is (lua/lib/stale.lua); `free` who takes the next task (lua/lib/free.lua); `seq` last sequence of its messages; `w` is only written (durability.ts). Never deleted: the declared key of every script. */
  partition: (p: number): string => `${root(p)}m`,
  /** hash: a batch; fields in lua/lib/batch.lua. */
  batch: (p: number, core: string): string => `${root(p)}b:${core}`,
  /** string: one byte of state a task. */
  states: (p: number, core: string): string => `${root(p)}b:${core}:s`,
  /** set: hashes of the idempotency keys of its tasks. */
  taskKeys: (p: number, core: string): string => `${root(p)}b:${core}:k`,
  /** hash: a segment, named by the index of its first task; fields `<page>` (16 tasks as given), `r<page>` (their results), `m` (its runs, see lua/partition/claim.lua). */
  segment: (p: number, core: string, base: number): string => `${root(p)}b:${core}:${base}`,
  /** hash: a segment on its way in (60 s), before a commit gives it its place; `new` is the operation of a create. */
  staged: (p: number, core: string, operation: string, k: number): string => `${root(p)}b:${core}:+${operation}:${k}`,
  /** list: accounts with ready work of a class (`f` fresh, `r` retry, `n` notification). */
  ready: (p: number, cls: string): string => `${root(p)}ready:${cls}`,
  /** set: origins without room; and of one: `<class>:<account>` of its parked flows. */
  parked: (p: number, origin?: string): string => (origin === undefined ? `${root(p)}parked` : `${root(p)}parked:${origin}`),
  /** zset: an account's batches by creation time; with a status: those in it. */
  accountBatches: (p: number, account: string, status?: string): string =>
    status === undefined ? `${root(p)}a:${account}:b` : `${root(p)}a:${account}:b:${status}`,
  /** zset: an account's batches with a label, by creation time; see labelHash. */
  accountLabel: (p: number, account: string, hash: string): string => `${root(p)}a:${account}:l:${hash}`,
  /** string: the account's open tray (core), 1 s. */
  tray: (p: number, account: string): string => `${root(p)}a:${account}:tray`,
  /** zset: `<class>:<account>:<origin>|<entry>` by due time (ms). */
  delayed: (p: number): string => `${root(p)}delayed`,
  /** zset: batches by the time something must happen to them: expiry first, then retention end (ms). */
  deadlines: (p: number): string => `${root(p)}deadlines`,
  /** hash: holder → the shard's time of its last tick (ms). */
  holders: (p: number): string => `${root(p)}holders`,
  /** zset: what a holder has in flight, by lease deadline (ms). */
  active: (p: number, holder: string): string => `${root(p)}active:${holder}`,
  /** hash: holder → number and references of its last claim, for a replay. */
  claims: (p: number): string => `${root(p)}claims`,
  /** hash: an idempotency record, 24 h; fields in lua/lib/idem.lua. */
  idempotency: (p: number, name: string): string => `${root(p)}idem:${name}`,
  /** hash: operation → batch, first index and time (ms) of the tasks that it added; one for each 10 s, gone after 20. */
  operations: (p: number, window: number): string => `${root(p)}ops:${window}`,
  /** list: times of the last requests of an API limit on a batch (`add`, `status`); 1 min. */
  batchQuota: (p: number, core: string, limit: string): string => `${root(p)}b:${core}:quota:${limit}`,
  /** zset: names of the open streams of a batch by the time (ms) at which their places end; see lua/stream/take.lua. */
  streams: (p: number, core: string): string => `${root(p)}b:${core}:streams`,
  /** string: account id; a ticket for one stream of a batch, named by its SHA-256; 30 s. */
  ticket: (p: number, core: string, hash: string): string => `${root(p)}b:${core}:ticket:${hash}`,
  /** sharded channel: how a watched batch stands, see lua/lib/batch.lua; a hint. */
  progress: (p: number, core: string): string => `${root(p)}progress:${core}`,
  /** zset: messages to partition `destination` by sequence, see lua/lib/outbox.lua; without one: destinations that have some waiting. */
  outbox: (p: number, destination?: number): string => (destination === undefined ? `${root(p)}outbox` : `${root(p)}outbox:${destination}`),
  /** hash: `<lane> <range>` → what a lane should hold of a range: sequence of the last message about it, flow, entry. */
  away: (p: number): string => `${root(p)}away`,
  /** zset: the same by the time (ms) since which the lane has not been asked about it. */
  awaySince: (p: number): string => `${root(p)}away:since`,
  /** hash: partition → sequence up to which its messages were applied here. */
  marks: (p: number): string => `${root(p)}hw`,
  /** zset: ranges that wait at a lane, by place. `lane`: a limiter id without its prefix. */
  lane: (p: number, lane: string): string => `${root(p)}lane:${lane}:q`,
  /** zset: what limiters granted and nobody has started, by the end of its life (ms); see lua/lib/limited.lua. */
  granted: (p: number): string => `${root(p)}granted`,
  /** list: ready entries of a flow, named `<class>:<account>:<origin>`; see lua/lib/ready.lua. */
  flow: (p: number, flow: string): string => `${root(p)}f:${flow}`,
  /** sharded channel: "work arrived"; a hint. */
  bell: (p: number): string => `${root(p)}bell`,
  /** channel: a task for who is free (lua/lib/free.lua). */
  handed: (p: number): string => `${root(p)}handed`,
  /** zset: schedules with a tick to decide, by when that is to be done (ms). */
  schedules: (p: number): string => `${root(p)}schedules`,
  /** hash: a schedule; fields in lua/lib/schedule.lua. */
  schedule: (p: number, core: string): string => `${root(p)}sched:${core}`,
  /** hash: what is long of it: its template and the plan of its runs. */
  scheduleDocument: (p: number, core: string): string => `${root(p)}sched:${core}:doc`,
  /** zset: runs of a schedule by the time they are for (ms), as lua/lib/schedule.lua has them. */
  scheduleRuns: (p: number, core: string): string => `${root(p)}sched:${core}:runs`,
  /** hash: a segment of a schedule's batch template, as of a batch; `part` is its first index. With `k`: set of hashed task keys. */
  scheduleTemplate: (p: number, core: string, template: string, part: number | 'k'): string =>
    `${root(p)}sched:${core}:${template}:${part}`,
  /** hash: such a segment on its way in (60 s). */
  scheduleStaged: (p: number, core: string, template: string, base: number): string => `${root(p)}sched:${core}:+${template}:${base}`,
  /** zset: an account's schedules by creation time; with a status: those in it. */
  accountSchedules: (p: number, account: string, status?: string): string =>
    status === undefined ? `${root(p)}a:${account}:sched` : `${root(p)}a:${account}:sched:${status}`,
  /** sharded channel: the time (ms) at which a tick is to be decided; a hint. */
  cronBell: (p: number): string => `${root(p)}cron`,

  /** hash: what the whole installation shares: `format` of the data, `partitions`, and how many there were at first (`partitions_first`). */
  meta: (): string => `${shared()}meta`,
  /** hash: process id → `{threads, seen}`; live members that make callbacks, or decide ticks. */
  members: (group: 'callbacks' | 'cron'): string => `${shared()}members${group === 'callbacks' ? '' : `:${group}`}`,
  /** hash: one access token, found by the SHA-256 of its text (hex). */
  token: (hash: string): string => `${home(hash)}token:${hash}`,
  /** set: token hashes of an account. */
  accountTokens: (account: string): string => `${home(account)}a:${account}:tokens`,
  /** list: times of the last requests of an API limit of an account; 1 min. */
  quota: (account: string, limit: string): string => `${home(account)}a:${account}:quota:${limit}`,
  /** hash: signing secrets of an account. */
  secrets: (account: string): string => `${home(account)}a:${account}:secrets`,
  /** sharded channel: an account whose signing secrets were rotated; a hint. */
  rotated: (): string => `${shared()}rotated`,
  /** hash: limiter name → core of the limiter that has it. */
  limiterNames: (account: string): string => `${home(account)}a:${account}:limiters`,
  /** zset: `<core> <name>` of limiters that are being made, by the time (ms) since which they have the name. */
  limiterReserved: (account: string): string => `${home(account)}a:${account}:limiters:reserved`,
  /** zset: an account's limiters by creation time. */
  limiterList: (account: string): string => `${home(account)}a:${account}:limiters:list`,
  /** hash: `w` is only written (durability.ts). */
  accountMark: (account: string): string => `${home(account)}w`,
  /** set: names of all accounts that ever had a token or a secret, for the operator's lists. */
  accounts: (): string => `${shared()}accounts`,
} as const;

let shared_home: string | undefined;

/** The home slot of what the whole installation shares; several times a second, so it is found out once. */
function shared(): string {
  shared_home ??= home('sluice');
  return shared_home;
}

/** The home slot of what `subject` names (an account id, a token hash). */
function home(subject: string): string {
  const n = createHash('sha256').update(`home:${subject}`).digest().readUInt32BE() % HOMES;
  return `sluice:{${homeTag(n)}}:`;
}

/** The name of an idempotency key in keys: what the caller chose appears only as a hash. */
export function idempotencyName(account: string, key: string): string {
  return `${account}:${createHash('sha256').update(key).digest('base64url').slice(0, 22)}`;
}

/** The name of a label with its value in keys; lua/lib/batch.lua relies on its ten characters. */
export function labelHash(label: string, value: string): string {
  return shortHash(`label:${label}=${value}`);
}

/**
 * Partition of an idempotent create: the record and what it makes must share a slot. It goes by the number of partitions
 * that there were at the first start, so that a record is found again after their number grew.
 */
export function idempotencyPartition(account: string, key: string, partitions_first: number): number {
  return createHash('sha256').update(`${account}:${key}`).digest().readUInt32BE() % partitions_first;
}
