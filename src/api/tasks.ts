// Single tasks, and tasks of batches by their own id.
import { ApiError } from '../base/errors.ts';
import { newCore, parseTaskId } from '../base/id.ts';
import { DEFAULT_TIMEOUT_S } from '../base/limits.ts';
import { checkTask } from '../schema/task-rules.ts';
import type { Target, TaskInput } from '../schema/types.gen.ts';
import * as batches from '../store/batches.ts';
import { readTask } from '../store/listing.ts';
import type { Answer, Call } from './call.ts';
import type { ApiContext } from './context.ts';
import { originOf, takeIn } from './intake.ts';
import { taskBytes } from './present.ts';

export async function createTask(context: ApiContext, call: Call): Promise<Answer> {
  const faults = checkTask(call.body, call.now_ms);
  if (faults.length > 0) throw new ApiError('validation_error', { errors: faults });
  const input = call.body as TaskInput;
  const { tasks } = single(input, context, call.now_ms);
  const partition = context.trayPartition(call.account_id);
  const { core, first } = await batches.createTasks(context.client, {
    partition,
    core: newCore(partition, call.now_ms),
    account_id: call.account_id,
    operation: batches.newOperation(),
    tasks,
  });
  context.meter.single();
  const [stored] = tasks;
  if (stored === undefined) throw new Error('a task was taken in and is not there');
  const row = { core, index: first, head: stored.head, payload: stored.payload, status: 'queued' as const, expired: false, result: null };
  return { body: taskBytes(row, { ...TRAY, core, account_id: call.account_id }) };
}

/** Faults of a single task have no `/tasks/0` in front. */
function single(input: TaskInput, context: ApiContext, now_ms: number): ReturnType<typeof takeIn> {
  try {
    return takeIn([input], { policy: context.policy, partial: false, rejected: [], known_keys: new Set(), at_ms: now_ms });
  } catch (error) {
    if (error instanceof ApiError && typeof error.details['path'] === 'string') {
      error.details['path'] = error.details['path'].replace(/^\/tasks\/0/, '');
    }
    throw error;
  }
}

/** What of a tray shows in its tasks. */
const TRAY: batches.BatchRow = {
  core: '',
  account_id: '',
  status: null,
  total: 1,
  completed: 0,
  failed: 0,
  cancelled: 0,
  running: 0,
  created_ms: 0,
  updated_ms: 0,
  finished_ms: null,
  doc: '{}',
  bases: [0],
};

interface Place {
  core: string;
  index: number;
}

function placeOf(call: Call): Place {
  const place = parseTaskId(call.params['task_id'] ?? '');
  if (place === null) throw missing(call);
  return place;
}

function missing(call: Call): ApiError {
  return new ApiError('task_not_found', { task_id: call.params['task_id'] });
}

export async function getTask(context: ApiContext, call: Call): Promise<Answer> {
  const { core, index } = placeOf(call);
  const found = await readTask(context.client, call.account_id, core, index);
  if (found === null) throw missing(call);
  return { body: taskBytes(found.row, found.batch) };
}

export async function cancelTask(context: ApiContext, call: Call): Promise<Answer> {
  const { core, index } = placeOf(call);
  const outcome = await batches.cancelTask(context.client, call.account_id, core, index, context.keep);
  if (outcome === 'missing') throw missing(call);
  if (outcome === 'state') throw await stateError(context, call, 'Only a task that is queued can be cancelled.');
  return getTask(context, call);
}

export async function retryTask(context: ApiContext, call: Call): Promise<Answer> {
  const { core, index } = placeOf(call);
  const found = await readTask(context.client, call.account_id, core, index);
  if (found === null) throw missing(call);
  const head = JSON.parse(found.row.head.toString()) as { target: Target; timeout?: number };
  const url = typeof head.target === 'string' ? head.target : head.target.url;
  const outcome = await batches.retryTask(context.client, call.account_id, core, index, {
    origin: originOf(url).hash,
    timeout_s: Math.ceil(head.timeout ?? DEFAULT_TIMEOUT_S),
  });
  if (outcome === 'missing') throw missing(call);
  if (outcome === 'state')
    throw await stateError(context, call, 'Only a failed task of an unfinished batch, or a failed single task, can be retried.');
  return getTask(context, call);
}

async function stateError(context: ApiContext, call: Call, message: string): Promise<ApiError> {
  const { core, index } = placeOf(call);
  const found = await readTask(context.client, call.account_id, core, index);
  return new ApiError('task_state_invalid', { task_id: call.params['task_id'], status: found?.row.status ?? 'unknown' }, { message });
}
