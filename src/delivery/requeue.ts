// What a script needs to queue forgotten tasks again: it is all in their records, and in what is known of their last attempts.
import { partitionOf } from '../base/id.ts';
import { NOTIFICATION_TIMEOUT_MS } from '../base/limits.ts';
import { readBatch } from '../store/batches.ts';
import type { forgotten } from '../store/held.ts';
import { keys } from '../store/keys.ts';
import { coreOfNotes, decodeNote, originIn } from '../store/notes.ts';
import { type Inspected, REQUEUE_MAX, type Stretch, spanOf } from '../store/reconcile.ts';
import type { RedisClient } from '../store/script.ts';
import { readTasks, type TaskRow } from '../store/task-rows.ts';
import { placeOf, type TaskPlace } from './spec.ts';

/** Stretches for one call of `requeue` each. Records that cannot be read, or whose batch is gone, are left out. */
export async function* stretchesOf(
  client: RedisClient,
  batch: Inspected,
  { runs, undealt }: Awaited<ReturnType<typeof forgotten>>,
): AsyncGenerator<Stretch[], void, undefined> {
  const span = spanOf(batch.seen);
  if (undealt && span !== null) yield [{ ...NO_PLACE, from: span[0], to: span[1], origin: '*', attempts: 0 }];
  const row = await readBatch(client, batch.account_id, batch.core);
  if (row === null) return;
  const key = keys.states(partitionOf(batch.core), batch.core);
  const targets =
    batch.status === 'notes' ? ((await client.hget(keys.batch(partitionOf(batch.core), coreOfNotes(batch.core)), 'N')) ?? '') : null;
  for (const [first, last] of runs) {
    for (let from = first; from <= last; from += REQUEUE_MAX) {
      const to = Math.min(last, from + REQUEUE_MAX - 1);
      const states = (await client.getrangeBuffer(key, from, to)).toString('latin1');
      const indexes = Array.from({ length: to - from + 1 }, (_, k) => from + k);
      yield merged(await readTasks(client, row, states, indexes, from), (task) =>
        targets === null ? placeOf(task.head) : noteAt(task, targets),
      );
    }
  }
}

const NO_PLACE: TaskPlace = { origin: '', timeout_s: 0, due_ms: 0, limiter: '', cost: 1, valid_ms: 0 };

/** Neighbours that are queued alike become one. */
function merged(tasks: readonly TaskRow[], placeOfTask: (task: TaskRow) => TaskPlace | null): Stretch[] {
  const stretches: Stretch[] = [];
  for (const task of tasks) {
    const place = placeOfTask(task);
    if (place === null) continue;
    const next: Stretch = { ...place, from: task.index, to: task.index, attempts: attemptsIn(task.result) };
    const last = stretches.at(-1);
    if (last !== undefined && last.to === task.index - 1 && same(last, next)) last.to = task.index;
    else stretches.push(next);
  }
  return stretches;
}

function same(one: Stretch, other: Stretch): boolean {
  return (Object.keys(one) as (keyof Stretch)[]).every((field) => field === 'from' || field === 'to' || one[field] === other[field]);
}

/** Attempts that ended, as the stored result says; see delivery/verdict.ts. */
function attemptsIn(result: string | null): number {
  return result === null || result === '' ? 0 : Number((JSON.parse(result) as unknown[])[1]);
}

function noteAt(task: TaskRow, targets: string): TaskPlace | null {
  if (task.payload === null) return null;
  const origin = originIn(targets, decodeNote(task.payload).event);
  return origin === null ? null : { ...NO_PLACE, origin, timeout_s: NOTIFICATION_TIMEOUT_MS / 1_000 };
}
