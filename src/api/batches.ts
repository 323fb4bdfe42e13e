// Batches: create, list, read, add tasks, cancel, release.
import { ApiError } from '../base/errors.ts';
import { ID_PREFIX, newCore, parseId } from '../base/id.ts';
import { DEFAULT_EXPIRATION_H } from '../base/limits.ts';
import { type BodyCheck, checkBatchCreate, checkTasksAdd, rejectedTasks } from '../schema/batch-check.ts';
import type { Batch, BatchListQuery, TaskListQuery } from '../schema/types.gen.ts';
import * as batches from '../store/batches.ts';
import { readRecord, readRecordBeside } from '../store/idempotency.ts';
import { labelHash } from '../store/keys.ts';
import { type BatchRead, listBatches, listTasks, readLimited } from '../store/listing.ts';
import type { QuotaState } from '../store/quota.ts';
import type { Answer, Call } from './call.ts';
import type { ApiContext } from './context.ts';
import { claim, type Keyed, keyedBy, once, recordArgs, replayed, sameRequest } from './idempotency.ts';
import { type Intake, takeIn, targetFault, taskKeysOf } from './intake.ts';
import { type BatchDoc, batchItem, batchView, changeView, taskBytes, timestamp } from './present.ts';
import { verdictOf } from './quota.ts';

const HOUR_MS = 3_600_000;
/** An add whose keys or segments were overtaken is tried again this often before the caller is asked to. */
const TRIES_MAX = 5;

export async function createBatch(context: ApiContext, call: Call): Promise<Answer> {
  const keyed = keyedBy(context, call, 'createBatch');
  const before = keyed === null ? null : await createdBefore(context, keyed);
  if (before !== null) return before;
  const { value: body, rejected } = accepted(checkBatchCreate(call.body, call.now_ms));
  const notifications = body.notifications ?? {};
  for (const [event, webhook] of Object.entries(notifications)) {
    const fault = targetFault(webhook.url, `/notifications/${event}/url`, context.policy);
    if (fault !== null) throw new ApiError('target_not_allowed', { path: fault.path });
  }
  const { atomic = true, expiration, hold = false } = body.options ?? {};
  const intake = takeIn(body.tasks, { policy: context.policy, partial: !atomic, rejected, known_keys: new Set(), at_ms: null });
  const doc: BatchDoc = {
    ...(body.description === undefined ? {} : { description: body.description }),
    notifications,
    options: { atomic, expiration: expiration ?? DEFAULT_EXPIRATION_H, hold },
    ...(body.labels === undefined ? {} : { labels: body.labels }),
  };
  const partition = keyed?.partition ?? context.nextPartition();
  const core = newCore(partition, call.now_ms);
  const row: batches.BatchRow = {
    core,
    account_id: call.account_id,
    status: 'pending',
    total: intake.tasks.length,
    completed: 0,
    failed: 0,
    cancelled: 0,
    running: 0,
    created_ms: 0,
    updated_ms: 0,
    finished_ms: null,
    doc: '',
    bases: [0],
  };
  const view = { ...batchView(row, doc), ...leftOut(intake, !atomic) };
  const created_ms = await batches.createBatch(context.client, {
    partition,
    core,
    account_id: call.account_id,
    doc: Buffer.from(JSON.stringify(doc)),
    tasks: intake.tasks,
    task_keys: intake.task_keys,
    expiration_ms: Math.round(doc.options.expiration * HOUR_MS),
    expires_from_ms: expiration === undefined ? intake.latest_ms : 0,
    movable: expiration === undefined,
    hold,
    labels: Object.entries(body.labels ?? {}).map(([name, value]) => labelHash(name, value)),
    idem: recordArgs(keyed, view),
  });
  if (created_ms === 'taken') return (keyed && (await createdBefore(context, keyed))) ?? unavailable();
  context.meter.batch(intake.tasks.length);
  return { body: createdAt(view, created_ms) };
}

/** The answer to a create as it was first given, where its key has a record. */
async function createdBefore(context: ApiContext, keyed: Keyed): Promise<Answer | null> {
  const record = await readRecord(context.client, keyed.partition, keyed.idem_key);
  if (record === null) return null;
  sameRequest(record, keyed);
  if (record.done === null) return unavailable();
  const [, created_ms] = record.done.reply.split(',');
  return replayed({ body: createdAt(JSON.parse(record.done.extra) as object, Number(created_ms)) });
}

function createdAt(view: object, created_ms: number): object {
  return { ...view, created_at: timestamp(created_ms), updated_at: timestamp(created_ms) };
}

function unavailable(): never {
  throw new ApiError('unavailable', {}, { retry_after_s: 1 });
}

/** `errors` of an `atomic: false` request, and `duplicates` where there were any. */
function leftOut(intake: Intake, partial: boolean): Record<string, unknown> {
  return {
    ...(partial ? { errors: rejectedTasks(intake.rejected) } : {}),
    ...(intake.duplicates > 0 ? { duplicates: intake.duplicates } : {}),
  };
}

function accepted<Body>(checked: BodyCheck<Body>): Extract<BodyCheck<Body>, { kind: 'ok' }> {
  if (checked.kind === 'refused') throw new ApiError('validation_error', { errors: checked.faults });
  return checked;
}

export async function getBatch(context: ApiContext, call: Call): Promise<Answer> {
  const read = await readWithinLimit(context, call, false);
  return { body: read.kind === 'read' ? viewOf(read.batch) : null, ...told(context, read) };
}

function viewOf(row: batches.BatchRow): Batch {
  return batchView(row, JSON.parse(row.doc) as BatchDoc);
}

/** Throws 404; a refused read is the caller's to tell, with `told`. */
async function readWithinLimit(context: ApiContext, call: Call, states: boolean): Promise<Exclude<BatchRead, { kind: 'missing' }>> {
  const read = await readLimited(context.client, call.account_id, coreOf(call), { limit: context.limits.batch_status, states });
  if (read.kind === 'missing') throw missing(call);
  return read;
}

/** How the limit on reads stands; one that is not granted becomes the answer 429. */
function told(context: ApiContext, read: { quota: QuotaState }): Pick<Answer, 'quota'> {
  const quota = verdictOf('batch-status', context.limits.batch_status, read.quota);
  return quota === null ? {} : { quota };
}

/** 404, then 429, of a read whose query is at fault. */
export async function batchReadable(context: ApiContext, call: Call): Promise<void> {
  const { quota } = told(context, await readWithinLimit(context, call, false));
  if (quota?.granted === false) throw new ApiError('rate_limited', {}, { retry_after_s: quota.reset_s });
}

async function visible(context: ApiContext, call: Call): Promise<batches.BatchRow> {
  const row = await batches.readBatch(context.client, call.account_id, coreOf(call));
  if (row === null || row.status === null) throw missing(call);
  return row;
}

/** 404 of the batch in the path; runs before anything is said of a body. */
export async function batchExists(context: ApiContext, call: Call): Promise<void> {
  await visible(context, call);
}

function coreOf(call: Call): string {
  const core = parseId(ID_PREFIX.batch, call.params['batch_id'] ?? '');
  if (core === null) throw missing(call);
  return core;
}

function missing(call: Call): ApiError {
  return new ApiError('batch_not_found', { batch_id: call.params['batch_id'] });
}

/** What is left of the query besides the named parameters: `label.<key>`, as its schema says. */
const LABEL_PREFIX = 'label.';

export async function list(context: ApiContext, call: Call): Promise<Answer> {
  const { status = null, limit, offset, ...rest } = call.query as unknown as BatchListQuery;
  const labels = Object.entries(rest).map(([name, value]) => labelHash(name.slice(LABEL_PREFIX.length), String(value)));
  const { total, rows } = await listBatches(context.client, context.partitions, call.account_id, { status, labels, limit, offset });
  return { body: { total, batches: rows.map((row) => batchItem(row, JSON.parse(row.doc) as BatchDoc)) } };
}

export async function listBatchTasks(context: ApiContext, call: Call): Promise<Answer> {
  const { status = null, limit, offset } = call.query as unknown as TaskListQuery;
  const read = await readWithinLimit(context, call, true);
  if (read.kind === 'refused') return { body: null, ...told(context, read) };
  const page = await listTasks(context.client, read.batch, read.states, { status, limit, offset });
  const parts: Buffer[] = [Buffer.from(`{"total":${page.total},"tasks":[`)];
  for (const [i, row] of page.rows.entries()) {
    if (i > 0) parts.push(COMMA);
    parts.push(taskBytes(row, read.batch));
  }
  parts.push(END);
  return { body: Buffer.concat(parts), ...told(context, read) };
}

const COMMA = Buffer.from(',');
const END = Buffer.from(']}');

export async function addTasks(context: ApiContext, call: Call): Promise<Answer> {
  const { value: body, rejected } = accepted(checkTasksAdd(call.body, call.now_ms));
  const core = coreOf(call);
  const partial = body.atomic === false;
  const hashes = taskKeysOf(body.tasks);
  const keyed = keyedBy(context, call, 'addTasks');
  if (keyed !== null) {
    await claim(context, keyed);
    const before = await addedBefore(context, core, keyed);
    if (before !== null) return before;
  }
  for (let tries = 1; ; tries++) {
    const known_keys = await batches.knownTaskKeys(context.client, core, hashes);
    const intake = takeIn(body.tasks, { policy: context.policy, partial, rejected, known_keys, at_ms: call.now_ms });
    const outcome = await batches.addTasks(context.client, {
      account_id: call.account_id,
      core,
      operation: batches.newOperation(),
      tasks: intake.tasks,
      task_keys: intake.task_keys,
      expires_from_ms: intake.latest_ms,
      expiration_ms: DEFAULT_EXPIRATION_H * HOUR_MS,
      idem: recordArgs(keyed, leftOut(intake, partial)),
    });
    switch (outcome.kind) {
      case 'added':
        context.meter.added(intake.tasks.length);
        return { body: { ...changeView(core, outcome.change.status, outcome.change), ...leftOut(intake, partial) } };
      case 'missing':
        throw missing(call);
      case 'state':
        throw stateError(call, outcome.status);
      case 'taken':
        return (keyed && (await addedBefore(context, core, keyed))) ?? unavailable();
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
  return replayed({ body: { ...view, ...(JSON.parse(record.done.extra) as object) } });
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
    if (!(await batches.releaseBatch(context.client, call.account_id, coreOf(call), context.keep))) throw missing(call);
    return { body: viewOf(await visible(context, call)) };
  });
}
