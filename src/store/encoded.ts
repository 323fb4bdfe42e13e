// Tasks as a create or an add writes them: cut into segments, with the runs that the commit queues. Made without Redis,
// in whatever thread has the time; plain data, so it can be sent from there.
import { BATCH_RUNS_MAX } from '../base/limits.ts';
import {
  encodeRecord,
  encodeRunMap,
  encodeSegments,
  lanesOf,
  type NamedLane,
  type NewSegment,
  type NewTask,
  type Run,
  runsOf,
} from './records.ts';

export interface EncodedTasks {
  count: number;
  segments: NewSegment[];
  /** The segments are written already, where their place says (StagePlace). */
  staged: boolean;
  /** Few tasks for a batch that exists: they fill its last segment, and there are no new ones. */
  records: Uint8Array[];
  runs: Run[];
  /** Their rate limiters. */
  lanes: NamedLane[];
}

/** Names the run of tasks whose runs lie in maps; as lua/partition/claim.lua has it. */
const UNEXPANDED = '*';
const RECORDS_MAX = 200;
const RECORDS_BYTES_MAX = 262_144;

/** The first tasks of a batch. */
export function encodeTasks(tasks: readonly NewTask[]): EncodedTasks {
  const segments = encodeSegments(tasks);
  return { count: tasks.length, segments, staged: false, records: [], runs: planRuns(tasks, segments), lanes: lanesOf(tasks) };
}

/** Tasks for a batch that exists. */
export function encodeAdded(tasks: readonly NewTask[]): EncodedTasks {
  const size = tasks.reduce((sum, task) => sum + task.head.length + (task.payload?.length ?? 0), 0);
  if (tasks.length > RECORDS_MAX || size > RECORDS_BYTES_MAX) return encodeTasks(tasks);
  const runs = runsOf(tasks, 0, tasks.length, Number.POSITIVE_INFINITY);
  const records = tasks.map((task) => encodeRecord(task, false));
  return { count: tasks.length, segments: [], staged: false, records, runs, lanes: lanesOf(tasks) };
}

/**
 * Every segment has its runs as a map, for rounds. Few are queued by the commit itself; many are dealt out from the maps
 * when the account's turn comes.
 */
function planRuns(tasks: readonly NewTask[], segments: readonly NewSegment[]): Run[] {
  for (const segment of segments) {
    segment.map = encodeRunMap(runsOf(tasks, segment.base, segment.tasks, Number.POSITIVE_INFINITY), segment.base);
  }
  const runs = runsOf(tasks, 0, tasks.length, BATCH_RUNS_MAX);
  if (runs.length <= BATCH_RUNS_MAX) return runs;
  return [{ from: 0, to: tasks.length - 1, origin: UNEXPANDED, timeout_s: 0, due_ms: 0, limit: '' }];
}

const NO_PAGES = new Uint8Array(0);

/** What is left to send of tasks whose segments are written. */
export function afterStaging(tasks: EncodedTasks): EncodedTasks {
  return { ...tasks, segments: tasks.segments.map((segment) => ({ ...segment, pages: NO_PAGES, ends: [], map: '' })), staged: true };
}

/** The memory in which the pages lie, to be moved to another thread instead of copied; what shares its memory is copied. */
export function memoryOf({ segments, staged }: EncodedTasks): ArrayBuffer[] {
  if (staged) return [];
  return segments.flatMap(({ pages: { buffer, byteLength } }) =>
    buffer instanceof ArrayBuffer && buffer.byteLength === byteLength ? [buffer] : [],
  );
}
