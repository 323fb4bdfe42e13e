// Notifications as they lie in Redis: the tasks of a batch's companion, `<core>n`. What its keys hold is said in lua/lib/notify.lua.
import type { NotificationEvent } from '../schema/notifications.ts';
import type { BatchStatus } from './batches.ts';

/** Letters that stand for the events. */
const LETTERS = { on_progress: 'p', on_finish: 'f', on_success: 's', on_death: 'd', on_complete: 'c' } as const satisfies Record<
  NotificationEvent,
  string
>;
const EVENTS: ReadonlyMap<string, NotificationEvent> = new Map(
  Object.entries(LETTERS).map(([event, letter]) => [letter, event as NotificationEvent]),
);

/** An event that a batch tells of. */
export interface NoteTarget {
  event: NotificationEvent;
  /** Hash of the webhook's origin. */
  origin: string;
  /** Shortest time between two; only of on_progress. */
  min_interval_ms: number;
}

/** A notification: the batch as it stood when it was made. */
export interface Note {
  event: NotificationEvent;
  status: BatchStatus;
  total: number;
  completed: number;
  failed: number;
  cancelled: number;
  at_ms: number;
  /** When the batch ended; null while it had not. */
  finished_ms: number | null;
  /** 1, and one more with every retry of the batch. */
  round: number;
  /** Of on_death: the task that failed first, and its stored result (JSON, see delivery/verdict.ts). */
  failure: { index: number; result: string } | null;
}

/** Longer than any core by one: no id of the API reads as one. */
export function notesCore(core: string): string {
  return `${core}n`;
}

/** The core of the batch that a companion tells of. */
export function coreOfNotes(notes_core: string): string {
  return notes_core.slice(0, -1);
}

/** Field `N` of a batch; '' for none. */
export function encodeTargets(targets: readonly NoteTarget[]): string {
  return targets
    .map(({ event, origin, min_interval_ms }) => `${LETTERS[event]}${origin}${min_interval_ms > 0 ? Math.round(min_interval_ms) : ''};`)
    .join('');
}

/** Hash of the origin that an event of a batch with this field `N` goes to; null where it is not wanted. */
export function originIn(targets: string, event: NotificationEvent): string | null {
  const target = targets.split(';').find((one) => one.startsWith(LETTERS[event]));
  return target === undefined ? null : target.slice(1, 11);
}

/** A record as it is stored. Records are written by our scripts, so one that cannot be read is a bug and throws. */
export function decodeNote(payload: Buffer): Note {
  const text = payload.toString();
  const match = /^(\w),(\w+),(\d+),(\d+),(\d+),(\d+),(\d+),(\d*),(\d+)(?:,(\d+),(.*))?$/s.exec(text);
  const event = EVENTS.get(match?.[1] ?? '');
  if (match === null || event === undefined) throw new Error(`not a notification: ${text.slice(0, 100)}`);
  const [, , status, total, completed, failed, cancelled, at_ms, finished_ms, round, index, result] = match;
  return {
    event,
    status: status as BatchStatus,
    total: Number(total),
    completed: Number(completed),
    failed: Number(failed),
    cancelled: Number(cancelled),
    at_ms: Number(at_ms),
    finished_ms: finished_ms === '' ? null : Number(finished_ms),
    round: Number(round),
    failure: index === undefined ? null : { index: Number(index), result: result ?? '' },
  };
}

/** The same over all attempts: what a receiver tells repetitions by. */
export function webhookId(batch_id: string, note: Note, index: number): string {
  return `${batch_id}_${note.event}_${note.event === 'on_progress' ? index : note.round}`;
}
