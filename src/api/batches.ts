// Batches: create, list, read, add tasks, cancel, release.
import { ApiError, type Fault } from '../base/errors.ts';
import { ID_PREFIX, newCore, parseId, partitionOf } from '../base/id.ts';
import { DEFAULT_EXPIRATION_H, INTAKE_STAGE_BYTES_MIN } from '../base/limits.ts';
import { FAULTS_MAX } from '../schema/faults.ts';
import type { BatchListQuery } from '../schema/types.gen.ts';
import * as batches from '../store/batches.ts';
import { type IdemArgs, type IdemRecord, readRecord, readRecordBeside } from '../store/idempotency.ts';
import { labelHash } from '../store/keys.ts';
import { type BatchRead, listBatches, readLimited } from '../store/listing.ts';
import type { QuotaState } from '../store/quota.ts';
import type { Answer, Call, QuotaVerdict } from './call.ts';
import type { ApiContext } from './context.ts';
import { nextCursor, placeIn } from './cursor.ts';
import { whenDurable } from './durable.ts';
import { claimed, type Keyed, keyedAs, keyOf, once, printHead, recordArgs, replayed, sameRequest, toldLast } from './idempotency.ts';
import type { Prepared, PrepareRequest, Ready, Refusal } from './prepare.ts';
import { type BatchDoc, batchBytes, batchItem, batchView, changeView, timestamp, viewOf } from './present.ts';
import { verdictOf } from './quota.ts';
import { namesIn, resolveLimiters } from './resolve.ts';
import { verifyBatch } from './verify.ts';

const HOUR_MS = 3_600_000;
/** An add whose keys or segments were overtaken is tried again this often before the caller is asked to. */
const TRIES_MAX = 5;

export async function createBatch(context: ApiContext, call: Call): Promise<Answer> {
  context.admit();
  const { placement } = context;
  const key = keyOf(context, call);
  const first = key?.partition ?? placement.next();
  // A large body is stored by the thread that reads it, so the batch has its name before.
  const core_first = newCore(first, call.now_ms);
  const record = key && (() => readRecord(context.client, key.partition, key.idem_key));
  const { keyed, prepared } = await read(context, call, 'createBatch', { core: core_first, operation: batches.NEW }, record);
  const before =
    keyed === null
      ? null
      : await toldLast(
          () => ready(prepared),
          () => createdBefore(context, keyed),
        );
  if (before !== null) return before;
  const { tasks, task_keys, latest_ms, left_out, batch } = ready(prepared);
  if (batch === null) throw new Error('an add was prepared for a create');
  const { doc, movable, notify } = batch;
  const create = async (partition: number) => {
    const core = partition === first ? core_first : newCore(partition, call.now_ms);
    const row = { ...NEW, core, account_id: call.account_id, total: tasks.count, held: doc.options.hold ?? false };
    const { created_at, updated_at, ...untimed } = batchView(row, doc);
    const view = withMembers(untimed, left_out);
    const created_ms = await batches.createBatch(context.client, {
      partition,
      core,
      account_id: call.account_id,
      doc: Buffer.from(JSON.stringify(doc)),
      tasks,
      task_keys,
      expiration_ms: Math.round(doc.options.expiration * HOUR_MS),
      expires_from_ms: movable ? latest_ms : 0,
      movable,
      hold: doc.options.hold ?? false,
      notify,
      labels: Object.entries(doc.labels ?? {}).map(([name, value]) => labelHash(name, value)),
      idem: recordArgs(keyed, view),
    });
    return { partition, view, created_ms };
  };
  const chosen = [first];
  const made = keyed === null ? await placement.place(() => chosen.pop() ?? placement.next(), create) : await create(first);
  const { partition, view, created_ms } = made;
  if (created_ms === 'taken') return (keyed && (await createdBefore(context, keyed))) ?? unavailable();
  context.meter.batch(tasks.count);
  if (tasks.lanes.length > 0) await context.relay(partition);
  return whenDurable(context, partition, { body: createdAt(view, created_ms) });
}

/** A batch that is being made, but for what is its own. */
const NEW = {
  status: 'pending',
  completed: 0,
  failed: 0,
  cancelled: 0,
  running: 0,
  created_ms: 0,
  updated_ms: 0,
  finished_ms: null,
  doc: '',
  bases: [0],
  undealt: null,
  held: false,
} as const satisfies Partial<batches.BatchRow>;

/** The answer to a create as it was first given, where its key has a record. */
async function createdBefore(context: ApiContext, keyed: Keyed): Promise<Answer | null> {
  const record = await readRecord(context.client, keyed.partition, keyed.idem_key);
  if (record === null) return null;
  sameRequest(record, keyed);
  if (record.done === null) return unavailable();
  const [, created_ms] = record.done.reply.split(',');
  const answer = replayed({ body: createdAt(Buffer.from(record.done.extra), Number(created_ms)) });
  return whenDurable(context, keyed.partition, answer);
}

/** The answer to a create, which as it is stored lacks its times. */
function createdAt(view: Buffer, created_ms: number): Buffer {
  const at = timestamp(created_ms);
  return Buffer.concat([view.subarray(0, -1), Buffer.from(`,"created_at":"${at}","updated_at":"${at}"}`)]);
}

/** An object as JSON, with members that are JSON already, each with a comma in front. */
function withMembers(view: object, members: Uint8Array): Buffer {
  return Buffer.concat([Buffer.from(JSON.stringify(view).slice(0, -1)), members, END_OBJECT]);
}

const BEGIN_OBJECT = Buffer.from('{');
const END_OBJECT = Buffer.from('}');

function unavailable(): never {
  throw new ApiError('unavailable', {}, { retry_after_s: 1 });
}

/**
 * Prepares the body, and throws where it is no JSON, or where something was wrong with the head of the request. A large one is
 * written to `place` right away, unless the `record` of its key is there: it was here before.
 */
async function read(
  context: ApiContext,
  call: Call,
  name: 'createBatch' | 'addTasks',
  place: batches.StagePlace,
  record: (() => Promise<IdemRecord | null>) | null,
): Promise<{ keyed: Keyed | null; prepared: Resolved }> {
  const body = call.raw_body ?? Buffer.alloc(0);
  const large = body.byteLength > INTAKE_STAGE_BYTES_MIN;
  const stage = large && (record === null || (await record()) === null) ? place : null;
  const prepared = await prepare(context, call, name, body, [], stage);
  if (prepared.outcome.kind === 'refused' && prepared.outcome.stage === 'json') ready(prepared);
  const faults = call.query['atomic'] === undefined ? call.head_faults : [...call.head_faults, OF_LINES];
  if (faults.length > 0) throw new ApiError('validation_error', { errors: [...faultsOf(prepared), ...faults].slice(0, FAULTS_MAX) });
  return { keyed: keyedAs(context, call, prepared.print), prepared };
}

const OF_LINES = { path: 'atomic', message: 'is for a body of lines; this one says it itself' };

/** A preparation that knows all limiters. */
type Resolved = Prepared & { outcome: Ready | Refusal };

/** Looks up the limiters that the body names, and prepares it with them. */
async function prepare(
  context: ApiContext,
  call: Call,
  name: 'createBatch' | 'addTasks',
  body: Uint8Array,
  known_keys: readonly string[],
  stage: batches.StagePlace | null,
): Promise<Resolved> {
  const print_head = call.idempotency_key === null ? null : printHead(call, name);
  return prepareBody(context, call, { what: name === 'createBatch' ? 'create' : 'add', body, print_head, known_keys, stage });
}

/** The same for any body of tasks. Its memory may be gone afterwards. */
export async function prepareBody(
  context: ApiContext,
  call: Call,
  wanted: Omit<PrepareRequest, 'now_ms' | 'trace' | 'limiters'>,
): Promise<Resolved> {
  const limiters = new Map(await resolveLimiters(context.client, call.account_id, namesIn(wanted.body)));
  const request: PrepareRequest = { ...wanted, now_ms: call.now_ms, trace: call.trace, limiters };
  const { print, outcome } = await context.prepare(request);
  if (outcome.kind !== 'names') return { print, outcome };
  for (const [one, limiter] of await resolveLimiters(context.client, call.account_id, outcome.names)) limiters.set(one, limiter);
  const again = await context.prepare({ ...request, body: outcome.body });
  if (again.outcome.kind === 'names') throw new Error('limiters were looked up and are not known');
  return { print: again.print, outcome: again.outcome };
}

function faultsOf({ outcome }: Resolved): readonly Fault[] {
  return outcome.kind === 'refused' && outcome.row === 'validation_error' ? (outcome.details['errors'] as Fault[]) : [];
}

/** Throws what the preparation refused. */
function ready({ outcome }: Resolved): Ready {
  if (outcome.kind === 'ready') return outcome;
  throw new ApiError(outcome.row, outcome.details, { message: outcome.message });
}

export async function getBatch(context: ApiContext, call: Call): Promise<Answer> {
  const read = await readWithinLimit(context, call, false);
  if (read.kind === 'refused') return { body: null, ...told(context, read) };
  if (call.query['verify'] !== true) return { body: batchBytes(read.batch), ...told(context, read) };
  const verified = await verifyBatch(context, coreOf(call));
  if (verified === null) throw missing(call);
  return { body: { ...viewOf(await visible(context, call)), verified }, ...told(context, read) };
}

/** Throws 404; a refused read is the caller's to tell, with `told`. */
export async function readWithinLimit(context: ApiContext, call: Call, states: boolean): Promise<Exclude<BatchRead, { kind: 'missing' }>> {
  const core = coreOf(call);
  const read = states
    ? await readLimited(context.client, call.account_id, core, { limit: context.limits.batch_status, states })
    : await context.reads.read(call.account_id, core);
  if (read.kind === 'missing') throw missing(call);
  return read;
}

/** How the limit on reads stands; one that is not granted becomes the answer 429. */
export function told(context: ApiContext, read: { quota: QuotaState }): Pick<Answer, 'quota'> {
  const quota = verdictOf('batch-status', context.limits.batch_status, read.quota);
  return quota === null ? {} : { quota };
}

/** 404 of the batch in the path, and the limit, of a read whose query is at fault. */
export async function batchReadable(context: ApiContext, call: Call): Promise<QuotaVerdict | null> {
  return told(context, await readWithinLimit(context, call, false)).quota ?? null;
}

/** The batch in the path; throws 404. */
export async function visible(context: ApiContext, call: Call): Promise<batches.BatchRow> {
  const row = await batches.readBatch(context.client, call.account_id, coreOf(call));
  if (row === null || row.status === null) throw missing(call);
  return row;
}

/** 404 of the batch in the path; runs before anything is said of a body. */
export async function batchExists(context: ApiContext, call: Call): Promise<void> {
  await visible(context, call);
}

export function coreOf(call: Call): string {
  const core = parseId(ID_PREFIX.batch, call.params['batch_id'] ?? '');
  if (core === null) throw missing(call);
  return core;
}

export function missing(call: Call): ApiError {
  return new ApiError('batch_not_found', { batch_id: call.params['batch_id'] });
}

/** What is left of the query besides the named parameters: `label.<key>`, as its schema says. */
const LABEL_PREFIX = 'label.';

export async function list(context: ApiContext, call: Call): Promise<Answer> {
  const { status = null, limit, offset, cursor, ...rest } = call.query as unknown as BatchListQuery;
  const after = placeIn('b', cursor);
  const labels = Object.entries(rest).map(([name, value]) => labelHash(name.slice(LABEL_PREFIX.length), String(value)));
  const page = { status, labels, limit, offset, after };
  const { total, rows, next } = await listBatches(context.client, context.partitions.now, call.account_id, page);
  return { body: { total, batches: rows.map((row) => batchItem(row, JSON.parse(row.doc) as BatchDoc)), ...nextCursor('b', next) } };
}

export async function addTasks(context: ApiContext, call: Call): Promise<Answer> {
  context.admit();
  const [core, operation] = [coreOf(call), batches.newOperation()];
  const key = keyOf(context, call);
  const record = key && (() => readRecordBeside(context.client, core, key.idem_key));
  const { keyed, prepared } = await read(context, call, 'addTasks', { core, operation }, record);
  return toldLast(
    () => ready(prepared),
    () => claimed(context, keyed, () => addPrepared(context, call, keyed, prepared, operation)),
  );
}

async function addPrepared(context: ApiContext, call: Call, keyed: Keyed | null, prepared: Resolved, operation: string): Promise<Answer> {
  const core = coreOf(call);
  const before = keyed && (await addedBefore(context, core, keyed));
  if (before) return before;
  const again = async (body: Uint8Array, known: readonly string[]) => ready(await prepare(context, call, 'addTasks', body, known, null));
  const idem = ({ left_out }: Ready) => recordArgs(keyed, Buffer.concat([BEGIN_OBJECT, left_out.subarray(1), END_OBJECT]));
  const done = await addReady(context, call, ready(prepared), again, idem, operation);
  if (done === null) return (keyed && (await addedBefore(context, core, keyed))) ?? unavailable();
  const { change, add } = done;
  return whenDurable(context, partitionOf(core), { body: withMembers(changeView(core, change.status, change), add.left_out) });
}

/**
 * Adds what was prepared; where the batch has keys of its tasks, what `again` makes of its body without those. null: the key that
 * `idem` names has a record already. `operation` names the add, and what may be staged of it.
 */
export async function addReady(
  context: ApiContext,
  call: Call,
  first: Ready,
  again: (body: Uint8Array, known_keys: readonly string[]) => Promise<Ready>,
  idem: (add: Ready) => IdemArgs,
  operation = batches.newOperation(),
): Promise<{ change: batches.BatchChange; add: Ready } | null> {
  const core = coreOf(call);
  let add = first;
  const known = new Set<string>();
  for (let tries = 1; ; tries++) {
    const found = await batches.knownTaskKeys(context.client, core, add.task_keys);
    if (found.size > 0 && add.body !== null) {
      for (const hash of found) known.add(hash);
      add = await again(add.body, [...known]);
    } else if (tries > 1 && add.tasks.staged) {
      unavailable(); // what was staged is gone, and the body with it
    }
    const outcome = await batches.addTasks(context.client, {
      account_id: call.account_id,
      core,
      operation: tries === 1 ? operation : batches.newOperation(),
      tasks: add.tasks,
      task_keys: add.task_keys,
      expires_from_ms: add.latest_ms,
      expiration_ms: DEFAULT_EXPIRATION_H * HOUR_MS,
      idem: idem(add),
    });
    switch (outcome.kind) {
      case 'added':
        context.meter.added(add.tasks.count);
        if (add.tasks.lanes.length > 0) await context.relay(partitionOf(core));
        return { change: outcome.change, add };
      case 'missing':
        throw missing(call);
      case 'state':
        throw stateError(call, outcome.status);
      case 'taken':
        return null;
      case 'repeat':
      case 'lost':
        if (tries === TRIES_MAX) unavailable();
    }
  }
}

/** The answer to an add as it was first given, where its key has a record beside the batch. */
async function addedBefore(context: ApiContext, core: string, keyed: Keyed): Promise<Answer | null> {
  const record = await readRecordBeside(context.client, core, keyed.idem_key);
  if (record === null || record.done === null) return null;
  const [, status, total, completed, failed, cancelled, updated_ms] = record.done.reply.split(',');
  const counts = { total: Number(total), completed: Number(completed), failed: Number(failed), cancelled: Number(cancelled) };
  const view = changeView(core, status as batches.BatchStatus, { ...counts, updated_ms: Number(updated_ms) });
  const left_out = record.done.extra.length > 2 ? `,${record.done.extra.slice(1, -1)}` : '';
  return whenDurable(context, partitionOf(core), replayed({ body: withMembers(view, Buffer.from(left_out)) }));
}

function stateError(call: Call, status: batches.BatchStatus): ApiError {
  const details = { batch_id: call.params['batch_id'], status };
  if (status === 'completed') return new ApiError('batch_completed', details);
  return new ApiError('batch_state_invalid', details, { message: `Tasks cannot be added to a batch that is ${status}.` });
}

export async function cancelBatch(context: ApiContext, call: Call): Promise<Answer> {
  return once(context, call, 'cancelBatch', () => cancel(context, call));
}

async function cancel(context: ApiContext, call: Call): Promise<Answer> {
  const core = coreOf(call);
  const outcome = await batches.cancelBatch(context.client, call.account_id, core, context.keep);
  switch (outcome.kind) {
    case 'cancelled':
      return { body: changeView(core, outcome.change.status, outcome.change) };
    case 'missing':
      throw missing(call);
    case 'state':
      throw new ApiError(
        'batch_state_invalid',
        { batch_id: call.params['batch_id'], status: outcome.status },
        { message: `A batch that is ${outcome.status} cannot be cancelled.` },
      );
  }
}

export async function releaseBatch(context: ApiContext, call: Call): Promise<Answer> {
  return once(context, call, 'releaseBatch', async () => {
    const row = await batches.releaseBatch(context.client, call.account_id, coreOf(call), context.keep);
    if (row === null) throw missing(call);
    return { body: viewOf(row) };
  });
}

export async function deleteBatch(context: ApiContext, call: Call): Promise<Answer> {
  const core = coreOf(call);
  const outcome = await batches.deleteBatch(context.client, call.account_id, core);
  switch (outcome.kind) {
    case 'deleted':
      if (outcome.dropped > 0) context.meter.dropped(ID_PREFIX.batch + core, outcome.dropped);
      return { body: { deleted: true, id: ID_PREFIX.batch + core } };
    case 'missing':
      throw missing(call);
    case 'state':
      throw new ApiError(
        'batch_state_invalid',
        { batch_id: call.params['batch_id'], status: outcome.status },
        { message: 'Only a batch that has finished can be deleted; a cancelled or expired one when its last running task has.' },
      );
  }
}
