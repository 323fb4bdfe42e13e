// Counts the tasks of a batch anew, for one who asks.
import { ID_PREFIX } from '../base/id.ts';
import type { BatchVerified } from '../schema/types.gen.ts';
import { verify } from '../store/reconcile.ts';
import type { ApiContext } from './context.ts';

/** What is found is set right, counted and logged. null: there is no such batch. */
export async function verifyBatch(context: ApiContext, core: string): Promise<BatchVerified | null> {
  const outcome = await verify(context.client, core, context.keep);
  switch (outcome.kind) {
    case 'gone':
      return null;
    case 'moved':
      return { repaired: [] };
    case 'done':
      for (const what of outcome.repaired) context.meter.repaired({ batch_id: ID_PREFIX.batch + core }, what, 1);
      return { consistent: outcome.repaired.length === 0, repaired: outcome.repaired };
  }
}
