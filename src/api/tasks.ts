// Single tasks, and tasks of batches by their own id.
import { ApiError } from '../base/errors.ts';
import { newCore, parseTaskId, partitionOf } from '../base/id.ts';
import { DEFAULT_TIMEOUT_S } from '../base/limits.ts';
import { taskFaults } from '../schema/task-rules.ts';
import type { TaskInput } from '../schema/types.gen.ts';
import * as batches from '../store/batches.ts';
import { readRecord } from '../store/idempotency.ts';
import { readTask } from '../store/listing.ts';
import * as oneTask from '../store/one-task.ts';
import type { NewTask } from '../store/records.ts';
import type { TaskRow } from '../store/task-rows.ts';
import type { Answer, Call } from './call.ts';
import type { ApiContext } from './context.ts';
import { whenDurable } from './durable.ts';
import { type Keyed, keyedBy, once, recordArgs, replayed, sameRequest, toldLast } from './idempotency.ts';
import { originOf, takeOne, timeOf } from './intake.ts';
import { newTaskBytes, taskBytes } from './present.ts';
import { type KnownLimiter, NO_LIMITERS, resolveLimiters } from './resolve.ts';
import { roundMs } from './rounds.ts';
import type { Place } from './tray-writer.ts';

export async function createTask(context: ApiContext, call: Call): Promise<Answer> {
  context.admit();
  const keyed = keyedBy(context, call, 'createTask');
  const made =
    keyed === null
      ? await makeTask(context, call, (task) => context.trays.write(call.account_id, task))
      : await makeOnce(context, call, keyed);
  if (!('place' in made)) return made;
  const { input, task, place } = made;
  context.meter.single();
  if (task.limit !== null) await context.relay(partitionOf(place.core));
  return whenDurable(context, partitionOf(place.core), { body: newTaskBytes(input, call.now_ms, place.core, place.index, task.payload) });
}

interface Made {
  input: TaskInput;
  task: NewTask;
  place: Place;
}

async function makeTask(context: ApiContext, call: Call, write: (task: NewTask) => Promise<Place>): Promise<Made> {
  const input = checked(call, call.now_ms);
  const { rate_limiter } = input;
  const limiters = rate_limiter === undefined ? NO_LIMITERS : await resolveLimiters(context.client, call.account_id, [rate_limiter]);
  const task = takeOne(input, { policy: context.policy, at_ms: call.now_ms, trace: call.trace, limiters });
  return { input, task, place: await write(task) };
}

/** Or the answer that the key has. Most keys are new, so that is asked for only where no task could be made: its limiter may be gone since, its time be over. */
async function makeOnce(context: ApiContext, call: Call, keyed: Keyed): Promise<Made | Answer> {
  try {
    return await makeTask(context, call, (task) => createKeyed(context, call, keyed, task));
  } catch (error) {
    const check = (): void => {
      if (error instanceof ApiError && error.status === 400) throw error;
    };
    const before = await toldLast(check, () => createdBefore(context, call, keyed));
    if (before === null) throw error;
    return before;
  }
}

/** The record must share a slot with the task, so a keyed task goes where its key lies. */
async function createKeyed(context: ApiContext, call: Call, keyed: Keyed, task: NewTask): Promise<Place> {
  const made = await batches.createTasks(context.client, {
    partition: keyed.partition,
    core: newCore(keyed.partition, call.now_ms),
    account_id: call.account_id,
    operation: batches.newOperation(),
    tasks: [task],
    idem: recordArgs(keyed, { at: call.now_ms }),
  });
  // The key is taken; where it has no record any more the caller may try again.
  if (made === null) throw new ApiError('unavailable', {}, { retry_after_s: 1 });
  return { core: made.core, index: made.first };
}

/** The answer to a create as it was first given, where its key has a record. The request is the same, so the task is. */
async function createdBefore(context: ApiContext, call: Call, keyed: Keyed): Promise<Answer | null> {
  const record = await readRecord(context.client, keyed.partition, keyed.idem_key);
  if (record === null) return null;
  sameRequest(record, keyed);
  if (record.done === null) throw new ApiError('unavailable', {}, { retry_after_s: 1 });
  const [core = '', first] = record.done.reply.split(',');
  const { at } = JSON.parse(record.done.extra) as { at: number };
  const input = checked(call, at);
  const answer = replayed({ body: newTaskBytes(input, at, core, Number(first), sameTask(context, input, at).payload) });
  return whenDurable(context, keyed.partition, answer);
}

/** The same as it was stored before; its limiter may be gone since. */
function sameTask(context: ApiContext, input: TaskInput, at_ms: number): NewTask {
  const { rate_limiter } = input;
  const limiters = rate_limiter === undefined ? NO_LIMITERS : new Map([[rate_limiter, UNKNOWN]]);
  return takeOne(input, { policy: context.policy, at_ms, trace: null, limiters });
}

/** Does for a task that is only shown. */
const UNKNOWN: KnownLimiter = { core: '', letter: '', cost_max: null };

/** The body, which fits its schema, by the rules beyond that. */
function checked(call: Call, at_ms: number): TaskInput {
  const input = call.body as TaskInput;
  const faults = taskFaults(input, '', at_ms);
  if (faults.length > 0) throw new ApiError('validation_error', { errors: faults });
  return input;
}

function placeOf(call: Call): Place {
  const place = parseTaskId(call.params['task_id'] ?? '');
  if (place === null) throw missing(call);
  return place;
}

function missing(call: Call): ApiError {
  return new ApiError('task_not_found', { task_id: call.params['task_id'] });
}

/** 404 of the task in the path, where the request has another fault. */
export async function taskExists(context: ApiContext, call: Call): Promise<void> {
  await getTask(context, call);
}

export async function getTask(context: ApiContext, call: Call): Promise<Answer> {
  const { core, index } = placeOf(call);
  const found = await readTask(context.client, call.account_id, core, index);
  if (found === null) throw missing(call);
  return { body: taskBytes(found.row, found.batch) };
}

export async function cancelTask(context: ApiContext, call: Call): Promise<Answer> {
  return once(context, call, 'cancelTask', async () => {
    const { core, index } = placeOf(call);
    const found = await readTask(context.client, call.account_id, core, index);
    if (found === null) throw missing(call);
    const { rate_limiter: limiter = '', execute_after } = headOf(found.row);
    const task = { core, index, limiter, due_ms: timeOf(execute_after) };
    const outcome = await oneTask.cancelTask(context.client, call.account_id, task, context.keep);
    if (outcome === 'missing') throw missing(call);
    if (outcome === 'state') throw await stateError(context, call, 'Only a task that is queued can be cancelled.');
    if (limiter !== '') await context.relay(partitionOf(core));
    return getTask(context, call);
  });
}

export async function retryTask(context: ApiContext, call: Call): Promise<Answer> {
  return once(context, call, 'retryTask', async ({ known, note: operation }) => {
    const { core, index } = placeOf(call);
    const found = await readTask(context.client, call.account_id, core, index);
    if (found === null) throw missing(call);
    const head = headOf(found.row);
    const url = typeof head.target === 'string' ? head.target : head.target.url;
    const { rate_limiter: name, points_cost: cost = 1, execute_after, valid_until } = head;
    const outcome = await oneTask.retryTask(context.client, call.account_id, core, index, {
      origin: originOf(url).hash,
      timeout_s: Math.ceil(head.timeout ?? DEFAULT_TIMEOUT_S),
      due_ms: timeOf(execute_after),
      limiter: name === undefined ? null : { name, cost, valid_ms: timeOf(valid_until) },
      expiration_ms: roundMs(found.batch),
      operation,
    });
    if (outcome === 'missing') throw missing(call);
    // Begun before under the same key: what stands in the way is most likely that first try.
    if (outcome === 'state' && !known) throw await stateError(context, call, RETRY_REFUSED);
    if (name !== undefined) await context.relay(partitionOf(core));
    return getTask(context, call);
  });
}

function headOf(row: Pick<TaskRow, 'head'>): Omit<TaskInput, 'payload'> {
  return JSON.parse(row.head.toString()) as Omit<TaskInput, 'payload'>;
}

const RETRY_REFUSED = 'Only a failed task can be retried, and not in a batch that was cancelled or has expired with tasks still running.';

async function stateError(context: ApiContext, call: Call, message: string): Promise<ApiError> {
  const { core, index } = placeOf(call);
  const found = await readTask(context.client, call.account_id, core, index);
  return new ApiError('task_state_invalid', { task_id: call.params['task_id'], status: found?.row.status ?? 'unknown' }, { message });
}
