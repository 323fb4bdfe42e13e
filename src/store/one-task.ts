// What is done with one task, of a batch or by itself: it is cancelled, or runs again.
import { partitionOf } from '../base/id.ts';
import { SWEEP_TASKS_MAX } from '../base/limits.ts';
import type { Keep } from './batches.ts';
import { keys } from './keys.ts';
import type { TaskLimit } from './records.ts';
import type { RedisClient } from './script.ts';
import { batchSweep, taskCancel, taskRetry } from './scripts.gen.ts';

export interface TaskToCancel {
  core: string;
  index: number;
  /** Name of its rate limiter, '' for none. */
  limiter: string;
  /** Its `execute_after`, 0 for none. */
  due_ms: number;
}

/** `cancelled` (also when it was before), `missing`, or `state`: running or finished. */
export async function cancelTask(client: RedisClient, account_id: string, task: TaskToCancel, keep: Keep): Promise<string> {
  return taskCancel.call(client, { meta: keys.partition(partitionOf(task.core)) }, { ...task, account: account_id, ...keep });
}

/** What the task itself says; its limiter is the one that the name meant when it was made. */
export interface TaskToRetry {
  origin: string;
  timeout_s: number;
  /** Its `execute_after`, 0 for none. */
  due_ms: number;
  /** How long a round may take. */
  expiration_ms: number;
  /** A repeated call with the same one changes nothing, for ten seconds at least. */
  operation: string;
  limiter?: Pick<TaskLimit, 'name' | 'cost' | 'valid_ms'> | null;
}

/** `queued`, `missing`, or `state`: not failed, or its batch is over and has not failed. */
export async function retryTask(client: RedisClient, account_id: string, core: string, index: number, task: TaskToRetry): Promise<string> {
  const place = { meta: keys.partition(partitionOf(core)) };
  const { origin, timeout_s, due_ms, expiration_ms, operation: op, limiter } = task;
  const limit = { limiter: limiter?.name ?? '', cost: limiter?.cost ?? 0, valid_ms: limiter?.valid_ms ?? 0 };
  const args = { core, index, account: account_id, origin, timeout_s, due_ms, expiration_ms, op, ...limit };
  for (;;) {
    const outcome = await taskRetry.call(client, place, args);
    if (outcome !== 'sweep') return outcome;
    while ((await batchSweep.call(client, place, { core, account: account_id, tasks_max: SWEEP_TASKS_MAX })) === 1);
  }
}
