// A page of a batch's tasks in one call, as the API reads it.
import type { BatchRow } from '../../src/store/batches.ts';
import { chooseTasks, readLimited } from '../../src/store/listing.ts';
import type { RedisClient } from '../../src/store/script.ts';
import { readTasks, type TaskRow } from '../../src/store/task-rows.ts';

/** Null where the account has no such batch. */
export async function listTasks(
  client: RedisClient,
  account_id: string,
  core: string,
  page: { status: string | null; limit: number; offset: number },
): Promise<{ batch: BatchRow; total: number; rows: TaskRow[] } | null> {
  const read = await readLimited(client, account_id, core, { limit: 0, states: true });
  if (read.kind !== 'read') return null;
  const { batch, states } = read;
  const { total, indexes } = chooseTasks(batch, states, page);
  return { batch, total, rows: await readTasks(client, batch, states, indexes) };
}
