// Limits of the API itself: exact sliding minutes in Redis, shared by all processes.
import { partitionOf } from '../base/id.ts';
import { keys } from './keys.ts';
import type { RedisClient } from './script.ts';
import { quotaTake } from './scripts.gen.ts';

export const QUOTA_WINDOW_S = 60;

/** How a limit stands after a request; `next_ms` until one more may go. */
export interface QuotaState {
  granted: boolean;
  left: number;
  next_ms: number;
}

/** A batch creation of an account. */
export async function takeBatchCreate(client: RedisClient, account_id: string, limit: number): Promise<QuotaState> {
  return take(client, keys.quota(account_id, 'batch-create'), limit);
}

/** A request that adds tasks to a batch. */
export async function takeBatchAdd(client: RedisClient, core: string, limit: number): Promise<QuotaState> {
  return take(client, keys.batchQuota(partitionOf(core), core, 'add'), limit);
}

async function take(client: RedisClient, window: string, limit: number): Promise<QuotaState> {
  const [granted, left, next_ms] = await quotaTake.call(client, { window }, { limit });
  return { granted: granted === 1, left, next_ms };
}
