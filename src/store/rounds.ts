// Rounds: the failed tasks of a finished batch run again.
import { partitionOf } from '../base/id.ts';
import type { BatchChange, BatchStatus } from './batches.ts';
import { type IdemArgs, NO_RECORD } from './idempotency.ts';
import { keys } from './keys.ts';
import type { RedisClient } from './script.ts';
import { batchRetry } from './scripts.gen.ts';

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
