// A finished batch runs again what failed of it: a new round.
import { ApiError } from '../base/errors.ts';
import { partitionOf } from '../base/id.ts';
import { DEFAULT_EXPIRATION_H } from '../base/limits.ts';
import { type BatchRow, type BatchStatus, newOperation } from '../store/batches.ts';
import { readRecordBeside } from '../store/idempotency.ts';
import * as rounds from '../store/rounds.ts';
import { coreOf, missing, visible } from './batches.ts';
import type { Answer, Call } from './call.ts';
import type { ApiContext } from './context.ts';
import { whenDurable } from './durable.ts';
import { claimed, type Keyed, keyedBy, recordArgs, replayed } from './idempotency.ts';
import { type BatchDoc, changeView } from './present.ts';

const HOUR_MS = 3_600_000;

/** How long a round of a batch may take: as long as its first. */
export function roundMs({ doc }: BatchRow): number {
  const { options } = JSON.parse(doc) as Partial<BatchDoc>;
  return Math.round((options?.expiration ?? DEFAULT_EXPIRATION_H) * HOUR_MS);
}

export async function retryBatch(context: ApiContext, call: Call): Promise<Answer> {
  context.admit();
  const keyed = keyedBy(context, call, 'retryBatch');
  return claimed(context, keyed, () => retry(context, call, keyed));
}

async function retry(context: ApiContext, call: Call, keyed: Keyed | null): Promise<Answer> {
  const core = coreOf(call);
  const before = keyed && (await retriedBefore(context, core, keyed));
  if (before) return before;
  const outcome = await rounds.retryBatch(context.client, {
    account_id: call.account_id,
    core,
    operation: newOperation(),
    expiration_ms: roundMs(await visible(context, call)),
    idem: recordArgs(keyed, {}),
  });
  switch (outcome.kind) {
    case 'retried':
      return whenDurable(context, partitionOf(core), { body: changeView(core, outcome.change.status, outcome.change) });
    case 'missing':
      throw missing(call);
    case 'taken': {
      const first = keyed && (await retriedBefore(context, core, keyed));
      if (!first) throw new ApiError('unavailable', {}, { retry_after_s: 1 });
      return first;
    }
    case 'state':
    case 'running':
    case 'nothing':
      throw new ApiError(
        'batch_state_invalid',
        { batch_id: call.params['batch_id'], status: outcome.status },
        { message: REFUSED[outcome.kind](outcome.status) },
      );
  }
}

const REFUSED: Record<'state' | 'running' | 'nothing', (status: BatchStatus) => string> = {
  state: (status) => `A batch that is ${status} cannot be retried; one that has failed or expired can.`,
  running: () => 'The batch has expired, and some of its tasks still run; it can be retried when they have finished.',
  nothing: () => 'The batch has no failed task.',
};

/** The answer to a retry as it was first given, where its key has a record beside the batch. */
async function retriedBefore(context: ApiContext, core: string, keyed: Keyed): Promise<Answer | null> {
  const record = await readRecordBeside(context.client, core, keyed.idem_key);
  if (record === null || record.done === null) return null;
  const [, status, total, completed, failed, cancelled, updated_ms] = record.done.reply.split(',');
  const counts = { total: Number(total), completed: Number(completed), failed: Number(failed), cancelled: Number(cancelled) };
  const body = changeView(core, status as BatchStatus, { ...counts, updated_ms: Number(updated_ms) });
  return whenDurable(context, partitionOf(core), replayed({ body }));
}
