// Downloading how the tasks of a batch ended: page by page as it is read, whatever their number.
import type { ResultsQuery } from '../schema/types.gen.ts';
import type { BatchRow } from '../store/batches.ts';
import { readEnded } from '../store/listing.ts';
import { missing, readWithinLimit, told } from './batches.ts';
import type { Answer, Call } from './call.ts';
import type { ApiContext } from './context.ts';
import { outcomeView } from './present.ts';

export async function getBatchResults(context: ApiContext, call: Call): Promise<Answer> {
  const { start_index } = call.query as unknown as ResultsQuery;
  const read = await readWithinLimit(context, call, false);
  const quota = told(context, read);
  if (read.kind === 'refused') return { body: null, ...quota };
  return { body: null, blocks: outcomes(context, call, read.batch, start_index), ...quota };
}

/** Of the tasks that the batch had when it was read, those that have ended by the time their page is. Throws 404 where it is deleted meanwhile. */
async function* outcomes(context: ApiContext, call: Call, batch: BatchRow, from: number): AsyncGenerator<Buffer, void, undefined> {
  const pages = readEnded(context.client, batch, from);
  for (;;) {
    const { done, value: rows } = await context.pages.read(call, () => pages.next());
    if (done) return;
    if (rows === null) throw missing(call);
    yield Buffer.from(rows.map((row) => `${JSON.stringify(outcomeView(row, batch))}\n`).join(''));
  }
}
