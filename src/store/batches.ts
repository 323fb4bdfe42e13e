// Batches and their tasks: made, read, listed, changed. Every change is one script; many tasks are staged before it.
import { base62, partitionOf, randomBits } from '../base/id.ts';
import { STAGE_BYTES_MAX, STAGE_TTL_MS } from '../base/limits.ts';
import type { EncodedTasks } from './encoded.ts';
import { StageLost } from './errors.ts';
import { type IdemArgs, NO_RECORD } from './idempotency.ts';
import { keys } from './keys.ts';
import { encodePages, lanesOf, type NamedLane, type NewSegment, type NewTask, type Run, runsOf, segmentFields } from './records.ts';
import { execPipeline, type RedisClient } from './script.ts';
import { batchAdd, batchCancel, batchCreate, batchDelete, batchRelease, taskCreate } from './scripts.gen.ts';

export type BatchStatus = 'pending' | 'processing' | 'completed' | 'failed' | 'expired' | 'cancelled';

/** A batch as stored; times in ms. `status` is null for a tray. */
export interface BatchRow {
  core: string;
  account_id: string;
  status: BatchStatus | null;
  total: number;
  completed: number;
  failed: number;
  cancelled: number;
  running: number;
  created_ms: number;
  updated_ms: number;
  finished_ms: number | null;
  /** What the caller gave besides tasks, as JSON. */
  doc: string;
  /** First index of each segment. */
  bases: readonly number[];
  /** Tasks from..to that a round has not reached: what says failed there is of the round before, and waits. */
  undealt: { from: number; to: number } | null;
  /** Held open, and not released yet. */
  held: boolean;
}

/** Counters of a batch right after a change. */
export interface BatchChange {
  status: BatchStatus;
  total: number;
  completed: number;
  failed: number;
  cancelled: number;
  updated_ms: number;
}

export interface NewBatch {
  partition: number;
  core: string;
  account_id: string;
  doc: Buffer;
  tasks: EncodedTasks;
  expiration_ms: number;
  /** The latest execute_after, 0 where none or where the caller gave an expiration. */
  expires_from_ms: number;
  /** Whether the expiry moves with tasks that are added. */
  movable: boolean;
  /** Held open until it is released. */
  hold: boolean;
  /** Idempotency keys of its tasks, hashed. */
  task_keys: readonly string[];
  /** Its labels, hashed (labelHash); none by default. */
  labels?: readonly string[];
  /** Which notifications it sends, see notes.ts; none by default. */
  notify?: string;
  /** The record to write with it; none by default. */
  idem?: IdemArgs;
}

/** Times that scripts need; from the configuration. */
export interface Keep {
  keep_ms: number;
  tray_keep_ms: number;
}

/** Fields of a batch's hash, in the order that `toRow` takes. */
export const BATCH_FIELDS = ['a', 's', 'n', 'c', 'f', 'x', 'r', 't', 'u', 'z', 'd', 'g', 'o', 'h'] as const;
/** Stands for the operation in the names of a new batch's segments; as lua/batch/create.lua has it. */
export const NEW = 'new';

/** Where a create, or an add, has its segments until it is committed. */
export interface StagePlace {
  core: string;
  operation: string;
}

function stagedKey({ core, operation }: StagePlace, { base }: NewSegment, k: number): string {
  return keys.staged(partitionOf(core), core, operation, operation === NEW ? base : k);
}

/** An operation id: makes a repeated call of one change recognisable. */
export function newOperation(): string {
  return base62(randomBits(), 9);
}

/**
 * Makes a batch with its tasks, all or none. Returns its creation time (ms, Redis's clock), or `taken` where its idempotency
 * key has a record already. Throws StageLost.
 */
export async function createBatch(client: RedisClient, batch: NewBatch): Promise<number | 'taken'> {
  const { partition, core } = batch;
  const { count, segments, runs, lanes } = batch.tasks;
  const parts = [
    segments.length,
    ...segments.map((s) => s.base),
    ...flatRuns(runs),
    batch.task_keys.length,
    ...batch.task_keys,
    ...flatLanes(lanes),
  ];
  const pipeline = await stageRest(client, batch.tasks, { core, operation: NEW });
  batchCreate.queue(
    pipeline,
    { meta: keys.partition(partition) },
    {
      core,
      account: batch.account_id,
      doc: batch.doc,
      total: count,
      last_bytes: segments.at(-1)?.bytes ?? 0,
      expiration_ms: batch.expiration_ms,
      expires_from_ms: batch.expires_from_ms,
      movable: batch.movable ? 1 : 0,
      hold: batch.hold ? 1 : 0,
      labels: batch.labels?.join('') ?? '',
      notify: batch.notify ?? '',
      ...(batch.idem ?? NO_RECORD),
      parts,
    },
  );
  const replies = await execPipeline(client, pipeline);
  const [outcome, created_ms] = lastOf(replies) as [number, number];
  if (outcome === 0) throw new StageLost();
  return outcome === 1 ? created_ms : 'taken';
}

/** Writes the segments ahead of their commit, from any thread. */
export async function stageAhead(client: RedisClient, { segments }: EncodedTasks, place: StagePlace): Promise<void> {
  const pipeline = await stage(client, segments, (segment, k) => stagedKey(place, segment, k));
  throwFirst(await execPipeline(client, pipeline));
}

/** The same, where that was not done; the last of them are in the pipeline. */
function stageRest(client: RedisClient, { segments, staged }: EncodedTasks, place: StagePlace) {
  return stage(client, staged ? [] : segments, (segment, k) => stagedKey(place, segment, k));
}

/** Writes segments on their way in, a few at a time; the pipeline that it returns has the last of them unsent. */
export async function stage(client: RedisClient, segments: readonly NewSegment[], keyOf: (segment: NewSegment, k: number) => string) {
  let pipeline = client.pipeline();
  let bytes = 0;
  for (const [k, segment] of segments.entries()) {
    if (bytes > STAGE_BYTES_MAX) {
      throwFirst(await execPipeline(client, pipeline));
      pipeline = client.pipeline();
      bytes = 0;
    }
    const key = keyOf(segment, k);
    pipeline.hset(key, ...segmentFields(segment));
    pipeline.pexpire(key, STAGE_TTL_MS);
    bytes += segment.bytes;
  }
  return pipeline;
}

/** Runs as scripts take them: their number, then each. */
export function flatRuns(runs: readonly Run[]): (string | number)[] {
  const flat: (string | number)[] = [runs.length];
  for (const run of runs) flat.push(run.from, run.to, run.origin, run.timeout_s, run.due_ms, run.limit);
  return flat;
}

/** Limiters as scripts take them: their number, then each. */
export function flatLanes(lanes: readonly NamedLane[]): (string | number)[] {
  return [lanes.length, ...lanes.flatMap(({ name, lane, kind }) => [name, lane, kind])];
}

export interface AddTasks {
  account_id: string;
  core: string;
  operation: string;
  tasks: EncodedTasks;
  /** The latest execute_after among them, 0 where none. */
  expires_from_ms: number;
  /** The default life time, for a batch whose expiry moves. */
  expiration_ms: number;
  /** Idempotency keys of the tasks, hashed; none of them in the batch. */
  task_keys: readonly string[];
  /** The record to write with it; none by default. */
  idem?: IdemArgs;
}

export type AddOutcome =
  | { kind: 'added'; change: BatchChange; first: number }
  | { kind: 'missing' }
  | { kind: 'state'; status: BatchStatus }
  | { kind: 'lost' }
  | { kind: 'repeat' }
  | { kind: 'taken' };

/** Adds tasks to a pending or processing batch, all or none. */
export async function addTasks(client: RedisClient, add: AddTasks): Promise<AddOutcome> {
  const partition = partitionOf(add.core);
  const { count, segments, records, runs, lanes } = add.tasks;
  const root_length = keys.partition(partition).length - 1;
  const parts = [
    segments.length,
    ...segments.flatMap((segment, k) => [stagedKey(add, segment, k).slice(root_length), segment.tasks, segment.bytes]),
    records.length,
    ...records.map((record) => Buffer.from(record.buffer, record.byteOffset, record.byteLength)),
    ...flatRuns(runs),
    add.task_keys.length,
    ...add.task_keys,
    ...flatLanes(lanes),
  ];
  const pipeline = await stageRest(client, add.tasks, add);
  batchAdd.queue(
    pipeline,
    { meta: keys.partition(partition) },
    {
      core: add.core,
      account: add.account_id,
      op: add.operation,
      total: count,
      expires_from_ms: add.expires_from_ms,
      expiration_ms: add.expiration_ms,
      ...(add.idem ?? NO_RECORD),
      parts,
    },
  );
  const replies = await execPipeline(client, pipeline);
  const [outcome, status, total, completed, failed, cancelled, updated_ms, first] = lastOf(replies) as [
    string,
    BatchStatus,
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  switch (outcome) {
    case 'added':
      return { kind: 'added', first, change: { status, total, completed, failed, cancelled, updated_ms } };
    case 'state':
      return { kind: 'state', status };
    case 'lost':
    case 'repeat':
    case 'taken':
      return { kind: outcome };
    default:
      return { kind: 'missing' };
  }
}

export type CancelOutcome = { kind: 'cancelled'; change: BatchChange } | { kind: 'missing' } | { kind: 'state'; status: BatchStatus };

/** Cancels every task of a batch that is not running; again on a cancelled batch it changes nothing. */
export async function cancelBatch(client: RedisClient, account_id: string, core: string, keep: Keep): Promise<CancelOutcome> {
  const [outcome, status, total, completed, failed, cancelled, updated_ms] = await batchCancel.call(
    client,
    { meta: keys.partition(partitionOf(core)) },
    { core, account: account_id, keep_ms: keep.keep_ms },
  );
  if (outcome === 'missing') return { kind: 'missing' };
  if (outcome === 'state') return { kind: 'state', status: status as BatchStatus };
  return { kind: 'cancelled', change: { status: status as BatchStatus, total, completed, failed, cancelled, updated_ms } };
}

/** Lets a held batch end; also where it was not held. The batch as it is then, null where the account has none. */
export async function releaseBatch(client: RedisClient, account_id: string, core: string, keep: Keep): Promise<BatchRow | null> {
  const place = { meta: keys.partition(partitionOf(core)) };
  const values = await batchRelease.callBuffer(client, place, { core, account: account_id, keep_ms: keep.keep_ms, fields: BATCH_FIELDS });
  return values.length === 0 ? null : toRow(core, values);
}

/** More are more arguments than a call can have, and hold Redis up for long. */
const TASK_KEYS_A_CALL = 10_000;

/** Which of these task idempotency keys (hashed) the batch has. */
export async function knownTaskKeys(client: RedisClient, core: string, hashes: readonly string[]): Promise<Set<string>> {
  const key = keys.taskKeys(partitionOf(core), core);
  const found = new Set<string>();
  for (let at = 0; at < hashes.length; at += TASK_KEYS_A_CALL) {
    const some = hashes.slice(at, at + TASK_KEYS_A_CALL);
    const known = await client.smismember(key, ...some);
    for (const [i, hash] of some.entries()) if (known[i] === 1) found.add(hash);
  }
  return found;
}

export interface NewSingles {
  partition: number;
  core: string;
  account_id: string;
  operation: string;
  tasks: readonly NewTask[];
  /** Where in its page the first of them is likely to lie; default 0. A wrong one costs time, no more. */
  place?: number;
  idem?: IdemArgs;
}

/** Puts single tasks into the account's tray of a partition; null where their idempotency key has a record already. */
export async function createTasks(
  client: RedisClient,
  task: NewSingles,
): Promise<{ core: string; first: number; created_ms: number } | null> {
  const runs = runsOf(task.tasks, 0, task.tasks.length, Number.POSITIVE_INFINITY);
  const { place = 0 } = task;
  const pages = encodePages(task.tasks, place);
  // One task may be handed over to whoever is free, who then hears of it before we do.
  const create = task.tasks.length === 1 ? taskCreate.callToldFirst : taskCreate.call;
  const [core, first, created_ms] = await create(
    client,
    { meta: keys.partition(task.partition) },
    {
      core: task.core,
      account: task.account_id,
      op: task.operation,
      total: task.tasks.length,
      place,
      ...(task.idem ?? NO_RECORD),
      parts: [pages.length, ...pages, ...flatRuns(runs), ...flatLanes(lanesOf(task.tasks))],
    },
  );
  return core === '' ? null : { core, first, created_ms };
}

/** `dropped`: notifications that were not delivered. */
export type DeleteOutcome = { kind: 'deleted'; dropped: number } | { kind: 'missing' } | { kind: 'state'; status: BatchStatus };

/** Deletes a finished batch; its memory is freed later, in slices. */
export async function deleteBatch(client: RedisClient, account_id: string, core: string): Promise<DeleteOutcome> {
  const place = { meta: keys.partition(partitionOf(core)) };
  const [outcome, status, dropped] = await batchDelete.call(client, place, { core, account: account_id });
  if (outcome === 'state') return { kind: 'state', status: status as BatchStatus };
  return outcome === 'deleted' ? { kind: 'deleted', dropped } : { kind: 'missing' };
}

/** The batch or tray, or null where there is none of this account. */
export async function readBatch(client: RedisClient, account_id: string, core: string): Promise<BatchRow | null> {
  const values = await client.hmgetBuffer(keys.batch(partitionOf(core), core), ...BATCH_FIELDS);
  const row = toRow(core, values);
  return row !== null && row.account_id === account_id ? row : null;
}

/** A row from the values of BATCH_FIELDS; null where the batch is gone or going. */
export function toRow(core: string, values: readonly (Buffer | null)[]): BatchRow | null {
  const [account, status, total, completed, failed, cancelled, running, created, updated, finished, doc, bases, undealt, held] = values;
  if (!account || !status || status.toString() === 'deleted') return null;
  const state = status.toString();
  return {
    core,
    account_id: account.toString(),
    status: state === 'tray' ? null : (state as BatchStatus),
    total: Number(total),
    completed: Number(completed),
    failed: Number(failed),
    cancelled: Number(cancelled),
    running: Number(running),
    created_ms: Number(created),
    updated_ms: Number(updated),
    finished_ms: finished ? Number(finished) : null,
    doc: doc ? doc.toString() : '{}',
    bases: bases ? readBases(bases) : [0],
    undealt: undealt ? readSpan(undealt.toString()) : null,
    held: Boolean(held),
  };
}

function readBases(packed: Buffer): number[] {
  return Array.from({ length: packed.length / 4 }, (_, k) => packed.readUInt32BE(k * 4));
}

function readSpan(text: string): { from: number; to: number } {
  const [from, to] = text.split(',').map(Number);
  return { from: from ?? 0, to: to ?? -1 };
}

/** The first error among replies becomes the caller's: nothing after it counts. */
export function throwFirst(replies: readonly (readonly [Error | null, ...unknown[]])[]): void {
  for (const [error] of replies) if (error !== null) throw error;
}

/** The reply to the last command of a pipeline that went through whole. */
export function lastOf(replies: readonly (readonly [Error | null, ...unknown[]])[]): unknown {
  throwFirst(replies);
  const last = replies.at(-1);
  if (last === undefined) throw new Error('a pipeline without commands has no reply');
  return last[1];
}
