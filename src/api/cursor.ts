// Cursors of lists: where a page ended, so that the next one neither repeats nor leaves out what was there all the time,
// whatever is made or deleted meanwhile, and costs the same however far down it is. Opaque to callers; no secret.
//
//   <list>.<creation ms>.<core>   of the last item        t.<index>.<core of the batch>   of the next task
import { ApiError } from '../base/errors.ts';
import type { Place } from '../store/matching.ts';

/** The lists of places: batches, schedules, limiters. */
export type PlaceList = 'b' | 's' | 'l';

const TASKS = 't';
const TEXT = /^([bslt])\.(\d{1,15})\.([0-9A-Za-z]{18})$/;

/** Behind which place a page begins; null for the first one, undefined where no cursor was given. Throws 400. */
export function placeIn(list: PlaceList, cursor: string | undefined): Place | null | undefined {
  if (cursor === undefined || cursor === '') return cursor === undefined ? undefined : null;
  const { number, core } = read(list, cursor);
  return { created_ms: number, core };
}

/** The member of the answer that says where to go on; none where no cursor was given. */
export function nextCursor(list: PlaceList, next: Pick<Place, 'core' | 'created_ms'> | null | undefined): { next_cursor?: string | null } {
  if (next === undefined) return {};
  return { next_cursor: next === null ? null : write(list, next.created_ms, next.core) };
}

/** The index with which a page of a batch's tasks begins; undefined where no cursor was given. Throws 400. */
export function indexIn(batch_core: string, cursor: string | undefined): number | undefined {
  if (cursor === undefined || cursor === '') return cursor === undefined ? undefined : 0;
  const { number, core } = read(TASKS, cursor);
  if (core !== batch_core) throw invalid();
  return number;
}

export function indexCursor(batch_core: string, index: number): string {
  return write(TASKS, index, batch_core);
}

function write(list: PlaceList | typeof TASKS, number: number, core: string): string {
  return Buffer.from(`${list}.${number}.${core}`).toString('base64url');
}

function read(list: PlaceList | typeof TASKS, cursor: string): { number: number; core: string } {
  const [, of, number, core] = TEXT.exec(Buffer.from(cursor, 'base64url').toString('latin1')) ?? [];
  if (of !== list || core === undefined || write(list, Number(number), core) !== cursor) throw invalid();
  return { number: Number(number), core };
}

function invalid(): ApiError {
  return new ApiError('validation_error', { errors: [{ path: 'cursor', message: 'is no cursor of this list' }] });
}
