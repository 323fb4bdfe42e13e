// The tasks of a batch as a list: a page that lies together in one answer, a longer one piece by piece as it is read, so that 1,000 tasks of 256 KB are
// never in memory together.
import type { TaskListQuery } from '../schema/types.gen.ts';
import type { BatchRow } from '../store/batches.ts';
import { chooseTasks, readStates } from '../store/listing.ts';
import { readableAtOnce, readTasks } from '../store/task-rows.ts';
import { missing, readWithinLimit, told, visible } from './batches.ts';
import type { Answer, Call } from './call.ts';
import type { ApiContext } from './context.ts';
import { indexCursor, indexIn } from './cursor.ts';
import { isLong } from './page-turns.ts';
import { taskBytes } from './present.ts';

const COMMA = Buffer.from(',');

export async function listBatchTasks(context: ApiContext, call: Call): Promise<Answer> {
  const { status = null, limit, offset, cursor } = call.query as unknown as TaskListQuery;
  const read = await readWithinLimit(context, call, true);
  const quota = told(context, read);
  if (read.kind === 'refused') return { body: null, ...quota };
  const { batch, states } = read;
  const first = indexIn(batch.core, cursor);
  const { total, indexes, next } = chooseTasks(batch, states, { status, limit, offset, first });
  const pieces = readableAtOnce(batch, indexes);
  const cursor_after = next === null ? null : indexCursor(batch.core, next);
  const end = Buffer.from(first === undefined ? ']}' : `],"next_cursor":${JSON.stringify(cursor_after)}}`);
  async function* blocks(): AsyncGenerator<Buffer, void, undefined> {
    let before = Buffer.from(`{"total":${total},"tasks":[`);
    for (const some of pieces) {
      const parts: Buffer[] = [];
      for (const task of await tasksOf(some)) {
        parts.push(before, task);
        before = COMMA;
      }
      yield Buffer.concat(parts);
    }
    yield Buffer.concat(before === COMMA ? [end] : [before, end]);
  }
  const tasksOf = (some: readonly number[]): Promise<Buffer[]> => {
    if (pieces.length > 1) return context.pages.read(call, () => asTheyAre(context, call, some, status));
    const together = (): Promise<Buffer[]> => items(context, call, batch, states, some, 0);
    return isLong(some.length) ? context.pages.read(call, together) : together();
  };
  if (pieces.length > 1) return { body: null, blocks: blocks(), ...quota };
  const whole: Buffer[] = [];
  for await (const block of blocks()) whole.push(block);
  return { body: Buffer.concat(whole), ...quota };
}

/** Of a batch that was read some time ago; what has changed since it was chosen is left out rather than shown under a status that it does not have. */
async function asTheyAre(context: ApiContext, call: Call, some: readonly number[], status: string | null): Promise<Buffer[]> {
  const [from = 0, last = from] = [some[0], some.at(-1)];
  const batch = await visible(context, call);
  const states = await readStates(context.client, batch, from, last);
  if (states === '') throw missing(call);
  return items(context, call, batch, states, some, from, status);
}

/** Throws 404 where the batch is deleted meanwhile. `states` begins at task `states_from`. */
async function items(
  context: ApiContext,
  call: Call,
  batch: BatchRow,
  states: string,
  some: readonly number[],
  states_from: number,
  status: string | null = null,
): Promise<Buffer[]> {
  const rows = await readTasks(context.client, batch, states, some, states_from);
  if (rows.length < some.length) throw missing(call);
  return rows.filter((row) => status === null || row.status === status).map((row) => taskBytes(row, batch));
}
