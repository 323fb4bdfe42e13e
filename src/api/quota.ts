// The limits of spec section 9: which request takes from which, and what the caller is told.
import { ID_PREFIX, parseId } from '../base/id.ts';
import { QUOTA_WINDOW_S, type QuotaState, takeBatchAdd, takeBatchCreate } from '../store/quota.ts';
import type { Call, QuotaVerdict } from './call.ts';
import type { ApiContext, ApiLimits } from './context.ts';

/** What a state means to a caller; null where there is no limit. */
export function verdictOf(policy: string, limit: number, state: QuotaState): QuotaVerdict | null {
  if (limit === 0) return null;
  return {
    granted: state.granted,
    policy,
    limit,
    window_s: QUOTA_WINDOW_S,
    remaining: state.left,
    reset_s: Math.max(1, Math.ceil(state.next_ms / 1000)),
  };
}

/** Decides on the headers of a request, before its body is read; null: nothing to decide. Reads of a batch decide in the step that reads. */
export function takeQuota(context: ApiContext, quota: keyof ApiLimits, call: Call): Promise<QuotaVerdict | null> | null {
  const limit = context.limits[quota];
  if (limit === 0 || quota === 'batch_status') return null;
  return take(context, quota, call, limit);
}

async function take(context: ApiContext, quota: 'batch_create' | 'batch_add', call: Call, limit: number): Promise<QuotaVerdict | null> {
  if (quota === 'batch_create') return verdictOf('batch-create', limit, await takeBatchCreate(context.client, call.account_id, limit));
  const core = parseId(ID_PREFIX.batch, call.params['batch_id'] ?? '');
  return core === null ? null : verdictOf('batch-add', limit, await takeBatchAdd(context.client, core, limit));
}
