// How tasks lie in Redis: records in pages in segments. Lua sees records as opaque bytes; only this file reads them.
//
//   record   length of head (2 bytes) · head · payload       head: the task as given without its payload, JSON
//   page     up to 16 × (length of record (4 bytes) · record), one hash field
//   result   place in the page (1 byte) · length (2 bytes) · JSON; field `r<page>`, see lua/lib/results.lua
//   segment  up to 1,000 tasks and 1 MiB, one hash
//
// An empty head stands for the head of the record before it in the page: tasks of a batch mostly differ in their
// payload alone. An empty payload is an absent one, since no JSON value is empty. The payload is the caller's bytes.
import { PAGE_TASKS, SEGMENT_BYTES_MAX, SEGMENT_TASKS_MAX } from '../base/limits.ts';

/** A task on its way into Redis. */
export interface NewTask {
  head: Buffer;
  payload: Buffer | null;
  /** Hash of the target's origin; with the account it names the flow. */
  origin: string;
  /** The total deadline of an attempt, rounded up: what the lease is made from. */
  timeout_s: number;
  /** When it may run, ms since the epoch; 0 = now. */
  due_ms: number;
}

/** A stored task. `head` is one object for neighbours that share it, so it can key a cache by identity. */
export interface StoredTask {
  head: Buffer;
  payload: Buffer | null;
}

/** Consecutive tasks that are queued as one entry; indexes count from the first new task. */
export interface Run {
  from: number;
  to: number;
  origin: string;
  timeout_s: number;
  due_ms: number;
}

/** A segment as it is written; `base` counts from the first new task. */
export interface NewSegment {
  base: number;
  tasks: number;
  bytes: number;
  /** Field, value, field, value, … of its hash. */
  fields: (string | Buffer)[];
}

/** log2 of the tasks in a page, and the mask of a place in it. */
export const PAGE_SHIFT = Math.log2(PAGE_TASKS);
export const PAGE_MASK = PAGE_TASKS - 1;

const NO_BYTES = Buffer.alloc(0);

/** The record of one task, its head spelled out or left to the record before. */
export function encodeRecord(task: NewTask, same_head: boolean): Buffer {
  const head = same_head ? NO_BYTES : task.head;
  const payload = task.payload ?? NO_BYTES;
  const record = Buffer.allocUnsafe(2 + head.length + payload.length);
  record.writeUInt16BE(head.length, 0);
  head.copy(record, 2);
  payload.copy(record, 2 + head.length);
  return record;
}

/** Cuts tasks into segments of pages. */
export function encodeSegments(tasks: readonly NewTask[]): NewSegment[] {
  const segments: NewSegment[] = [];
  let segment: NewSegment | null = null;
  for (let i = 0; i < tasks.length; ) {
    const room = segment === null ? 0 : SEGMENT_TASKS_MAX - segment.tasks;
    if (segment === null || room === 0 || segment.bytes >= SEGMENT_BYTES_MAX) {
      segment = { base: i, tasks: 0, bytes: 0, fields: [] };
      segments.push(segment);
      continue;
    }
    const count = Math.min(PAGE_TASKS, tasks.length - i, room);
    const page = encodePage(tasks, i, count);
    segment.fields.push(String(segment.tasks / PAGE_TASKS), page);
    segment.tasks += count;
    segment.bytes += page.length;
    i += count;
  }
  return segments;
}

function encodePage(tasks: readonly NewTask[], first: number, count: number): Buffer {
  let size = 0;
  let head: Buffer | null = null;
  for (let i = first; i < first + count; i++) {
    const task = tasks[i] as NewTask;
    size += 6 + (task.payload?.length ?? 0) + (sameHead(head, task.head) ? 0 : task.head.length);
    head = task.head;
  }
  const page = Buffer.allocUnsafe(size);
  let at = 0;
  head = null;
  for (let i = first; i < first + count; i++) {
    const task = tasks[i] as NewTask;
    const head_length = sameHead(head, task.head) ? 0 : task.head.length;
    const payload_length = task.payload?.length ?? 0;
    page.writeUInt32BE(2 + head_length + payload_length, at);
    page.writeUInt16BE(head_length, at + 4);
    at += 6;
    if (head_length > 0) at += task.head.copy(page, at);
    if (task.payload !== null) at += task.payload.copy(page, at);
    head = task.head;
  }
  return page;
}

function sameHead(before: Buffer | null, head: Buffer): boolean {
  return before !== null && (before === head || before.equals(head));
}

/** The tasks of a page, in order. Views of `page`, no copies. */
export function decodePage(page: Buffer): StoredTask[] {
  const tasks: StoredTask[] = [];
  let head: Buffer = NO_BYTES;
  for (let at = 0; at < page.length; ) {
    const end = at + 4 + page.readUInt32BE(at);
    const head_length = page.readUInt16BE(at + 4);
    if (head_length > 0) head = page.subarray(at + 6, at + 6 + head_length);
    const payload_at = at + 6 + head_length;
    tasks.push({ head, payload: payload_at < end ? page.subarray(payload_at, end) : null });
    at = end;
  }
  return tasks;
}

/** Neighbours of one origin, timeout and due time become one run. Stops at `runs_max` + 1 runs: the caller then uses maps. */
export function runsOf(tasks: readonly NewTask[], first: number, count: number, runs_max: number): Run[] {
  const runs: Run[] = [];
  let run: Run | null = null;
  for (let i = first; i < first + count; i++) {
    const { origin, timeout_s, due_ms } = tasks[i] as NewTask;
    if (run !== null && run.origin === origin && run.timeout_s === timeout_s && run.due_ms === due_ms) {
      run.to = i;
      continue;
    }
    if (runs.length > runs_max) return runs;
    run = { from: i, to: i, origin, timeout_s, due_ms };
    runs.push(run);
  }
  return runs;
}

/** Runs of one segment as text for its field `m`, counted from its first task; read by lua/partition/claim.lua. */
export function encodeRunMap(runs: readonly Run[], base: number): string {
  return runs.map((r) => `${r.from - base},${r.to - base},${r.origin},${r.timeout_s},${r.due_ms};`).join('');
}

/** A result as it lies in field `r<page>`; read by lua/lib/results.lua too. */
export function encodeResult(place: number, json: string): Buffer {
  const length = Buffer.byteLength(json);
  const record = Buffer.allocUnsafe(3 + length);
  record.writeUInt8(place, 0);
  record.writeUInt16BE(length, 1);
  record.write(json, 3);
  return record;
}

/** The results of a page by place; a later record of a place takes the earlier one's. */
export function decodeResults(field: Buffer): Map<number, string> {
  const results = new Map<number, string>();
  for (let at = 0; at < field.length; ) {
    const end = at + 3 + field.readUInt16BE(at + 1);
    results.set(field.readUInt8(at), field.toString('utf8', at + 3, end));
    at = end;
  }
  return results;
}
