// The tasks of a batch as a list: a page that lies together in one answer, a longer one piece by piece as it is read, so that 1,000 tasks of 256 KB are
// never in memory together.
import type { TaskListQuery } from '../schema/types.gen.ts';
import { chooseTasks } from '../store/listing.ts';
import { readableAtOnce, readTasks, type TaskRow } from '../store/task-rows.ts';
import { readWithinLimit, told } from './batches.ts';
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
  const long = pieces.length > 1 || isLong(indexes.length);
  const rowsOf = (some: readonly number[]): Promise<TaskRow[]> => {
    const rows = (): Promise<TaskRow[]> => readTasks(context.client, batch, states, some);
    return long ? context.pages.read(call.account_id, rows) : rows();
  };
  const cursor_after = next === null ? null : indexCursor(batch.core, next);
  const end = first === undefined ? ']}' : `],"next_cursor":${JSON.stringify(cursor_after)}}`;
  async function* blocks(): AsyncGenerator<Buffer, void, undefined> {
    let before = Buffer.from(`{"total":${total},"tasks":[`);
    for (const some of pieces) {
      const parts: Buffer[] = [];
      for (const row of await rowsOf(some)) {
        parts.push(before, taskBytes(row, batch));
        before = COMMA;
      }
      yield Buffer.concat(parts);
    }
    yield Buffer.concat(before === COMMA ? [Buffer.from(end)] : [before, Buffer.from(end)]);
  }
  if (pieces.length > 1) return { body: null, blocks: blocks(), ...quota };
  const whole: Buffer[] = [];
  for await (const block of blocks()) whole.push(block);
  return { body: Buffer.concat(whole), ...quota };
}
