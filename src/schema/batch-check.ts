// The two bodies that carry many tasks: creating a batch and adding to it.
//
// The body without its tasks comes first, then each task alone: with `atomic: false` a bad task must not stand in the way of the
// others, and with a hundred thousand bad ones only the faults that are shown may be collected.
import { breathe } from '../base/breath.ts';
import type { Fault } from '../base/errors.ts';
import { check, isValid } from './check.ts';
import { FAULTS_MAX } from './faults.ts';
import { checkTask, furtherFaults, notificationFaults, taskFault } from './task-rules.ts';
import type { BatchCreate, RejectedTask, TaskInput, TasksAdd } from './types.gen.ts';

/** A task of an `atomic: false` body that will not be created. */
export interface Rejected {
  index: number;
  /** At least one; paths are pointers into the whole body. */
  faults: readonly Fault[];
}

/** `rejected` is in the order of the tasks, and empty for an atomic body; at least one task is not in it. */
export type BodyCheck<Body> = { kind: 'refused'; faults: Fault[] } | { kind: 'ok'; value: Body; rejected: readonly Rejected[] };

/** With `atomic: false` a body with more bad tasks than this is refused whole: the answer must have a bound. */
export const REJECTED_MAX = 100_000;
/** Of one task that is left out; the answer names the place and the reason, not all reasons. */
const FAULTS_PER_TASK_MAX = 8;

/** The body of POST /v1/batches. */
export function checkBatchCreate(value: unknown, now_ms: number): BodyCheck<BatchCreate> {
  const faults = check('BatchCreateEnvelope', value);
  const body = value as BatchCreate;
  const rules = ({ notifications }: Partial<BatchCreate>) =>
    notifications === undefined ? [] : notificationFaults(notifications, '/notifications');
  faults.push(...(faults.length === 0 ? rules(body) : furtherFaults(faults, withoutTasks(value), '', rules)));
  // What has faults of its own is refused whole, and so is shown with the faults of all its tasks.
  const atomic = faults.length > 0 || body.options?.atomic !== false;
  return checkTasks(body, faults, atomic, now_ms);
}

/** The body of POST /v1/batches/{batch_id}/tasks. */
export function checkTasksAdd(value: unknown, now_ms: number): BodyCheck<TasksAdd> {
  const faults = check('TasksAddEnvelope', value);
  const body = value as TasksAdd;
  return checkTasks(body, faults, faults.length > 0 || body.atomic !== false, now_ms);
}

/** The `errors` of an answer: each fault of each task that was left out. */
export function rejectedTasks(rejected: readonly Rejected[]): RejectedTask[] {
  return rejected.flatMap(({ index, faults }) => faults.map(({ path, message }) => ({ index, message, path })));
}

/** `faults` are those of the body without its tasks. */
function checkTasks<Body extends { tasks: TaskInput[] }>(body: Body, faults: Fault[], atomic: boolean, now_ms: number): BodyCheck<Body> {
  const tasks = tasksIn(body);
  const rejected: Rejected[] = [];
  for (let index = 0; index < tasks.length && faults.length < FAULTS_MAX; index++) {
    breathe();
    const found = faultsOf(tasks[index], now_ms);
    if (found.length === 0) continue;
    const placed = placedAt(index, found, atomic ? FAULTS_MAX - faults.length : FAULTS_PER_TASK_MAX);
    if (atomic) faults.push(...placed);
    else if (rejected.length < REJECTED_MAX) rejected.push({ index, faults: placed });
    else faults.push({ path: '/tasks', message: `must have at most ${REJECTED_MAX} tasks that are not valid` });
    if (!atomic && faults.length > 0) break;
  }
  if (faults.length > 0) return { kind: 'refused', faults: faults.slice(0, FAULTS_MAX) };
  if (rejected.length === tasks.length) return { kind: 'refused', faults: rejected.flatMap((one) => one.faults).slice(0, FAULTS_MAX) };
  return { kind: 'ok', value: body, rejected };
}

/** Those of some tasks that are not valid; all may be. */
export function rejectedAmong(tasks: readonly unknown[], now_ms: number): Rejected[] {
  return tasks.flatMap((task, index) => {
    const found = faultsOf(task, now_ms);
    return found.length === 0 ? [] : [{ index, faults: placedAt(index, found, FAULTS_PER_TASK_MAX) }];
  });
}

function faultsOf(task: unknown, now_ms: number): readonly Fault[] {
  return isValid('TaskInput', task) ? taskFault(task as TaskInput, now_ms) : checkTask(task, now_ms);
}

function placedAt(index: number, found: readonly Fault[], max: number): Fault[] {
  return found.slice(0, max).map(({ path, message }) => ({ path: `/tasks/${index}${path}`, message }));
}

/** They are many, and looked at alone. */
function withoutTasks(body: unknown): unknown {
  return typeof body === 'object' && body !== null ? { ...body, tasks: undefined } : body;
}

/** The tasks of a body that may be anything at all. */
function tasksIn(body: unknown): readonly unknown[] {
  if (typeof body !== 'object' || body === null || !('tasks' in body)) return [];
  return Array.isArray(body.tasks) ? body.tasks : [];
}
