// Rounds: failed tasks of a finished batch, or of a tray, run again.
import { partitionOf } from '../base/id.ts';
import { SWEEP_TASKS_MAX } from '../base/limits.ts';
import type { BatchChange, BatchStatus } from './batches.ts';
import { type IdemArgs, NO_RECORD } from './idempotency.ts';
import { keys } from './keys.ts';
import type { TaskLimit } from './records.ts';
import type { RedisClient } from './script.ts';
import { batchRetry, batchSweep, taskRetry } from './scripts.gen.ts';

export interface RetryBatch {
  account_id: string;
  core: string;
  operation: string;
  /** How long a round may take. */
  expiration_ms: number;
  /** The record to write with it; none by default. */
  idem?: IdemArgs;
}

/** `running`: it expired, and something of it still runs; `nothing`: no task of it has failed. */
export type RetryOutcome =
  | { kind: 'retried'; change: BatchChange }
  | { kind: 'missing' }
  | { kind: 'taken' }
  | { kind: 'state' | 'running' | 'nothing'; status: BatchStatus };

/** Begins a round of all failed tasks of a failed or expired batch. */
export async function retryBatch(client: RedisClient, retry: RetryBatch): Promise<RetryOutcome> {
  const { core, account_id, operation, expiration_ms, idem = NO_RECORD } = retry;
  const [outcome, text, total, completed, failed, cancelled, updated_ms] = await batchRetry.call(
    client,
    { meta: keys.partition(partitionOf(core)) },
    { core, account: account_id, op: operation, expiration_ms, ...idem },
  );
  const status = text as BatchStatus;
  switch (outcome) {
    case 'retried':
      return { kind: 'retried', change: { status, total, completed, failed, cancelled, updated_ms } };
    case 'state':
    case 'running':
    case 'nothing':
      return { kind: outcome, status };
    case 'taken':
      return { kind: 'taken' };
    default:
      return { kind: 'missing' };
  }
}

/** What the task itself says; its limiter is the one that the name meant when it was made. */
export interface TaskToRetry {
  origin: string;
  timeout_s: number;
  /** Its `execute_after`, 0 for none. */
  due_ms: number;
  /** How long a round may take. */
  expiration_ms: number;
  limiter?: Pick<TaskLimit, 'name' | 'cost' | 'valid_ms'> | null;
}

/** `queued`, `missing`, or `state`: not failed, or its batch is over and has not failed. */
export async function retryTask(client: RedisClient, account_id: string, core: string, index: number, task: TaskToRetry): Promise<string> {
  const place = { meta: keys.partition(partitionOf(core)) };
  const { origin, timeout_s, due_ms, expiration_ms, limiter } = task;
  const limit = { limiter: limiter?.name ?? '', cost: limiter?.cost ?? 0, valid_ms: limiter?.valid_ms ?? 0 };
  const args = { core, index, account: account_id, origin, timeout_s, due_ms, expiration_ms, ...limit };
  for (;;) {
    const outcome = await taskRetry.call(client, place, args);
    if (outcome !== 'sweep') return outcome;
    while ((await batchSweep.call(client, place, { core, account: account_id, tasks_max: SWEEP_TASKS_MAX })) === 1);
  }
}
