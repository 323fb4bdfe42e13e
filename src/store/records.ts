// How tasks lie in Redis: records in pages in segments. Lua sees records as opaque bytes; only this file reads them.
//
//   record   length of head (2 bytes) · head · payload       head: the task as given without its payload, JSON
//   page     up to 16 × (length of record (4 bytes) · record), one hash field
//   result   place in the page (1 byte) · length (2 bytes) · JSON; field `r<page>`, see lua/lib/results.lua
//   segment  up to 1,000 tasks and 1 MiB, one hash
//
// An empty head stands for the head of the record before it in the page: tasks of a batch mostly differ in their
// payload alone. An empty payload is an absent one, since no JSON value is empty. The payload is the caller's bytes.
import { breathe } from '../base/breath.ts';
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
  /** The rate limiter that it takes from. */
  limit: TaskLimit | null;
}

/** What a task takes from a rate limiter. */
export interface TaskLimit {
  /** The limiter's name, as the task said it. */
  name: string;
  /** Its id without the prefix. */
  lane: string;
  /** The letter of its kind. */
  kind: string;
  /** Units that the task takes. */
  cost: number;
  /** The task's own valid_until, ms since the epoch; 0 = none. */
  valid_ms: number;
}

/** A limiter that tasks of a batch have. */
export type NamedLane = Pick<TaskLimit, 'name' | 'lane' | 'kind'>;

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
  /** What each of them takes from its limiter, as scripts read it: `<lane>,<kind>,<cost>,<valid_ms>`; '' for none. */
  limit: string;
}

/** A segment as it is written; `base` counts from the first new task. Plain data, made in any thread. */
export interface NewSegment {
  base: number;
  tasks: number;
  /** Its pages, one behind the other, and where each ends; gone where it is written already. */
  pages: Uint8Array;
  /** Bytes of its pages. */
  bytes: number;
  ends: number[];
  /** Its runs, see encodeRunMap. */
  map: string;
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

/** Tasks as they lie in pages, heads spelled out; the first page has `place` tasks before them. */
export function encodePages(tasks: readonly NewTask[], place: number): Buffer[] {
  const pages: Buffer[] = [];
  for (let first = 0, end = PAGE_TASKS - place; first < tasks.length; first = end, end += PAGE_TASKS) {
    const page = tasks.slice(first, end);
    const bytes = page.reduce((sum, { head, payload }) => sum + 6 + head.length + (payload?.length ?? 0), 0);
    const into = Buffer.allocUnsafe(bytes);
    let at = 0;
    for (const task of page) at = writeRecord(into, at, task, task.head.length);
    pages.push(into);
  }
  return pages;
}

/** Cuts tasks into segments of pages. */
export function encodeSegments(tasks: readonly NewTask[]): NewSegment[] {
  const segments: NewSegment[] = [];
  for (let base = 0; base < tasks.length; ) {
    const ends: number[] = [];
    let bytes = 0;
    let count = 0;
    while (base + count < tasks.length && count < SEGMENT_TASKS_MAX && bytes < SEGMENT_BYTES_MAX) {
      const page = Math.min(PAGE_TASKS, tasks.length - base - count, SEGMENT_TASKS_MAX - count);
      bytes += pageBytes(tasks, base + count, page);
      count += page;
      ends.push(bytes);
    }
    const pages = Buffer.allocUnsafe(bytes);
    for (let i = 0; i < count; i += PAGE_TASKS) {
      breathe();
      writePage(pages, ends[i / PAGE_TASKS - 1] ?? 0, tasks, base + i, Math.min(PAGE_TASKS, count - i));
    }
    segments.push({ base, tasks: count, pages, bytes, ends, map: '' });
    base += count;
  }
  return segments;
}

/** Field, value, field, value, … of a segment's hash. */
export function segmentFields({ pages, ends, map }: NewSegment): (string | Buffer)[] {
  const fields: (string | Buffer)[] = [];
  for (const [page, end] of ends.entries()) {
    const from = ends[page - 1] ?? 0;
    fields.push(String(page), Buffer.from(pages.buffer, pages.byteOffset + from, end - from));
  }
  if (map !== '') fields.push('m', map);
  return fields;
}

function pageBytes(tasks: readonly NewTask[], first: number, count: number): number {
  let size = 0;
  let head: Buffer | null = null;
  for (let i = first; i < first + count; i++) {
    const task = tasks[i] as NewTask;
    size += 6 + (task.payload?.length ?? 0) + (sameHead(head, task.head) ? 0 : task.head.length);
    head = task.head;
  }
  return size;
}

function writePage(into: Buffer, from: number, tasks: readonly NewTask[], first: number, count: number): void {
  let at = from;
  let head: Buffer | null = null;
  for (let i = first; i < first + count; i++) {
    const task = tasks[i] as NewTask;
    at = writeRecord(into, at, task, sameHead(head, task.head) ? 0 : task.head.length);
    head = task.head;
  }
}

/** Returns where it ends. */
function writeRecord(into: Buffer, from: number, { head, payload }: NewTask, head_length: number): number {
  into.writeUInt32BE(2 + head_length + (payload?.length ?? 0), from);
  into.writeUInt16BE(head_length, from + 4);
  let at = from + 6;
  if (head_length > 0) at += head.copy(into, at);
  if (payload !== null) at += payload.copy(into, at);
  return at;
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

/** The same page with further members in each head; `members` is JSON, with a comma in front. */
export function withMembers(page: Buffer, members: Buffer): Buffer {
  const parts: Buffer[] = [];
  for (let at = 0; at < page.length; ) {
    const end = at + 4 + page.readUInt32BE(at);
    const head_length = page.readUInt16BE(at + 4);
    const grown = head_length === 0 ? 0 : members.length;
    const lengths = Buffer.allocUnsafe(6);
    lengths.writeUInt32BE(end - at - 4 + grown, 0);
    lengths.writeUInt16BE(head_length + grown, 4);
    const inside = at + 6 + head_length - 1;
    if (grown === 0) parts.push(lengths, page.subarray(at + 6, end));
    else parts.push(lengths, page.subarray(at + 6, inside), members, page.subarray(inside, end));
    at = end;
  }
  return Buffer.concat(parts);
}

/** Neighbours of one origin, timeout, due time and limit become one run. Stops at `runs_max` + 1 runs: the caller then uses maps. */
export function runsOf(tasks: readonly NewTask[], first: number, count: number, runs_max: number): Run[] {
  const runs: Run[] = [];
  let run: Run | null = null;
  for (let i = first; i < first + count; i++) {
    const { origin, timeout_s, due_ms, limit: taken } = tasks[i] as NewTask;
    const limit = taken === null ? '' : limitText(taken);
    if (run !== null && run.origin === origin && run.timeout_s === timeout_s && run.due_ms === due_ms && run.limit === limit) {
      run.to = i;
      continue;
    }
    if (runs.length > runs_max) return runs;
    run = { from: i, to: i, origin, timeout_s, due_ms, limit };
    runs.push(run);
  }
  return runs;
}

function limitText({ lane, kind, cost, valid_ms }: TaskLimit): string {
  return `${lane},${kind},${cost},${Math.ceil(valid_ms)}`;
}

/** Each limiter of these tasks once. */
export function lanesOf(tasks: readonly NewTask[]): NamedLane[] {
  const lanes = new Map<string, NamedLane>();
  for (const { limit } of tasks) if (limit !== null && !lanes.has(limit.name)) lanes.set(limit.name, limit);
  return [...lanes.values()].map(({ name, lane, kind }) => ({ name, lane, kind }));
}

/** Runs of one segment as text for its field `m`, counted from its first task; read by lua/partition/claim.lua. */
export function encodeRunMap(runs: readonly Run[], base: number): string {
  return runs
    .map((r) => `${r.from - base},${r.to - base},${r.origin},${r.timeout_s},${r.due_ms}${r.limit === '' ? '' : `,${r.limit}`};`)
    .join('');
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
