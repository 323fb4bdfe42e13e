// Schedules: create, list, read, change, delete, preview, trigger, and the tasks that they made.
import { ApiError } from '../base/errors.ts';
import { ID_PREFIX, newCore, parseId, partitionOf, taskId } from '../base/id.ts';
import { localTime, nextTick, storedTiming, type Timing, upcoming } from '../schedules/preview.ts';
import { timestampMs } from '../schema/formats.ts';
import { templateFaults } from '../schema/task-rules.ts';
import type {
  CronPreviewQuery,
  ScheduleCreate,
  ScheduleExecution,
  ScheduleListQuery,
  SchedulePatch,
  SchedulePreviewQuery,
  ScheduleTaskListQuery,
} from '../schema/types.gen.ts';
import { newOperation } from '../store/batches.ts';
import { StageLost } from '../store/errors.ts';
import { readRecord, readRecordBeside } from '../store/idempotency.ts';
import { deletedOf } from '../store/limiters.ts';
import * as runs from '../store/schedule-runs.ts';
import { listScheduleTasks } from '../store/schedule-tasks.ts';
import type { ScheduleRow, ScheduleStatus, ScheduleTiming } from '../store/schedules.ts';
import * as schedules from '../store/schedules.ts';
import type { Answer, Call } from './call.ts';
import type { ApiContext } from './context.ts';
import { nextCursor, placeIn } from './cursor.ts';
import { whenDurable } from './durable.ts';
import { claimed, type Keyed, keyedBy, recordArgs, replayed, sameRequest, toldLast } from './idempotency.ts';
import { traceFields } from './intake.ts';
import { isLong } from './page-turns.ts';
import { scheduledTaskBytes, timestamp } from './present.ts';
import { checkedTiming, givenTiming, orderFaults, patchedTiming, planned, plannedFrom, sameTiming } from './schedule-timing.ts';
import { newTemplate, shownTemplate } from './templates.ts';

/**
 * A change that was overtaken by another is tried again this often before the caller is asked to. Of those made at once
 * one gets through each time, so this many may be.
 */
const TRIES_MAX = 64;
/** Templates can be large, and a page of them is one answer. */
const LIST_BYTES_MAX = 32 * 1_024 * 1_024;

export async function createSchedule(context: ApiContext, call: Call): Promise<Answer> {
  context.admit();
  const keyed = keyedBy(context, call, 'createSchedule');
  const known = (key: Keyed): Promise<Answer | null> =>
    toldLast(
      () => readCreate(context, call),
      () => createdBefore(context, call, key),
    );
  const before = keyed === null ? null : await known(keyed);
  if (before !== null) return before;
  const { timing, given, template, status } = await readCreate(context, call);
  const first = status === 'active' ? planned(context, timing, call.now_ms) : null;
  const create = async (partition: number) => {
    const core = newCore(partition, call.now_ms);
    const idem = recordArgs(keyed, { core, next: first?.tick_ms ?? null });
    const account_id = call.account_id;
    const created_ms = await schedules.createSchedule(context.client, { core, account_id, status, timing: given, template, first, idem });
    return { core, created_ms };
  };
  const { placement } = context;
  const made = keyed === null ? await placement.place(() => placement.next(), create) : await create(keyed.partition);
  if (made.created_ms === 'taken') return (keyed && (await createdBefore(context, call, keyed))) ?? unavailable();
  const shown = { core: made.core, created_ms: made.created_ms, next_ms: first?.tick_ms ?? null };
  return whenDurable(context, partitionOf(made.core), { body: createdBytes(given, template, status, shown) });
}

/** The answer to a create as it was first given, where its key has a record. The request is the same, so what it made is. */
async function createdBefore(context: ApiContext, call: Call, keyed: Keyed): Promise<Answer | null> {
  const record = await readRecord(context.client, keyed.partition, keyed.idem_key);
  if (record === null) return null;
  sameRequest(record, keyed);
  if (record.done === null) return unavailable();
  const { core, next } = JSON.parse(record.done.extra) as { core: string; next: number | null };
  const [, created_ms] = record.done.reply.split(',');
  const body = call.body as ScheduleCreate;
  const shown = { core, created_ms: Number(created_ms), next_ms: next };
  // It was checked when it was made; its limiter may be gone since.
  const answer = { body: createdBytes(givenTiming(body), sureTemplate(shownTemplate(body)), givenStatus(body), shown) };
  return whenDurable(context, keyed.partition, replayed(answer));
}

function unavailable(): never {
  throw new ApiError('unavailable', {}, { retry_after_s: 1 });
}

/** The body of a create, checked. */
async function readCreate(context: ApiContext, call: Call) {
  const body = call.body as ScheduleCreate;
  const given = givenTiming(body);
  const faults = [...templateFaults(body, call.now_ms), ...orderFaults(given, body)];
  if (faults.length > 0) throw new ApiError('validation_error', { errors: faults.slice(0, 100) });
  const timing = checkedTiming(given, call.now_ms);
  const template = sureTemplate(await newTemplate(context, call.account_id, body));
  return { given, timing, template, status: givenStatus(body) };
}

function givenStatus({ enabled }: ScheduleCreate): ScheduleStatus {
  return enabled === false ? 'disabled' : 'active';
}

/** The schema asks for a template. */
function sureTemplate<T>(template: T | null): T {
  if (template === null) throw new Error('a template was checked and is not there');
  return template;
}

interface Shown extends ScheduleTiming {
  core: string;
  status: ScheduleStatus;
  kind: 'task' | 'batch';
  shown: Buffer;
  created_ms: number;
  updated_ms: number;
  executions: number;
  last_error: ScheduleRow['last_error'];
}

function createdBytes(
  given: ScheduleTiming,
  { kind, shown }: { kind: 'task' | 'batch'; shown: Buffer },
  status: ScheduleStatus,
  { core, created_ms, next_ms }: { core: string; created_ms: number; next_ms: number | null },
): Buffer {
  const row = { ...given, core, status, kind, shown, created_ms, updated_ms: created_ms, executions: 0, last_error: null };
  return scheduleBytes(row, next_ms, { last_execution_at: null });
}

/** A schedule as JSON: payloads in its template go out as they came in. */
function scheduleBytes(row: Shown, next_ms: number | null, more: object): Buffer {
  const head = {
    id: ID_PREFIX.schedule + row.core,
    status: row.status,
    cron: row.cron,
    timezone: row.timezone,
    ...(row.start_ms === null ? {} : { start_at: timestamp(row.start_ms) }),
    ...(row.end_ms === null ? {} : { end_at: timestamp(row.end_ms) }),
  };
  const tail = {
    enabled: row.status === 'active',
    next_execution_at: next_ms === null ? null : timestamp(next_ms),
    ...more,
    execution_count: row.executions,
    created_at: timestamp(row.created_ms),
    updated_at: timestamp(row.updated_ms),
    ...(row.last_error === null ? {} : { last_error: { code: row.last_error.code, at: timestamp(row.last_error.at_ms) } }),
  };
  return joined(head, [[`${row.kind}_template`, row.shown]], tail);
}

/** One object of the members of `head`, members that are JSON already, and those of `tail`. */
function joined(head: object, members: readonly (readonly [string, Buffer])[], tail: object): Buffer {
  const parts: Buffer[] = [];
  const add = (json: string | Buffer): void => {
    if (json.length === 0) return;
    parts.push(Buffer.from(parts.length === 0 ? '{' : ','), Buffer.from(json));
  };
  add(JSON.stringify(head).slice(1, -1));
  for (const [name, json] of members) add(Buffer.concat([Buffer.from(`"${name}":`), json]));
  add(JSON.stringify(tail).slice(1, -1));
  parts.push(Buffer.from('}'));
  return Buffer.concat(parts);
}

/** The first tick after now; null while disabled. */
function nextOf(row: ScheduleRow, now_ms: number): number | null {
  const timing = row.status === 'active' ? storedTiming(row) : null;
  return timing === null ? null : nextTick(timing, now_ms);
}

function coreOf(call: Call): string {
  const core = parseId(ID_PREFIX.schedule, call.params['schedule_id'] ?? '');
  if (core === null) throw missing(call);
  return core;
}

function missing(call: Call): ApiError {
  return new ApiError('schedule_not_found', { schedule_id: call.params['schedule_id'] });
}

async function visible(context: ApiContext, call: Call): Promise<ScheduleRow> {
  const row = await schedules.readSchedule(context.client, call.account_id, coreOf(call));
  if (row === null) throw missing(call);
  return row;
}

/** 404 of the schedule in the path. */
export async function scheduleExists(context: ApiContext, call: Call): Promise<void> {
  await visible(context, call);
}

export async function getSchedule(context: ApiContext, call: Call): Promise<Answer> {
  const row = await visible(context, call);
  const last = { last_execution_at: row.last_ms === null ? null : timestamp(row.last_ms) };
  return { body: scheduleBytes(row, nextOf(row, call.now_ms), last) };
}

export async function list(context: ApiContext, call: Call): Promise<Answer> {
  const { status = null, enabled, limit, offset, cursor } = call.query as unknown as ScheduleListQuery;
  const after = placeIn('s', cursor);
  const by_enabled = enabled === undefined ? null : enabled ? 'active' : 'disabled';
  if (status !== null && by_enabled !== null && status !== by_enabled) {
    return { body: { total: 0, schedules: [], ...(after === undefined ? {} : { next_cursor: null }) } };
  }
  const page = { status: status ?? by_enabled, limit, offset, after, bytes_max: LIST_BYTES_MAX };
  const { total, rows, bytes, next } = await schedules.listSchedules(context.client, context.partitions.now, call.account_id, page);
  if (bytes > LIST_BYTES_MAX) {
    const fault = { path: 'limit', message: `must be less: these schedules have more than ${LIST_BYTES_MAX} bytes together` };
    throw new ApiError('validation_error', { errors: [fault] });
  }
  const items = rows.map((row) => scheduleBytes(row, nextOf(row, call.now_ms), {}));
  return { body: listBytes(total, 'schedules', items, nextCursor('s', next)) };
}

function listBytes(total: number, name: string, items: readonly Buffer[], more: object = {}): Buffer {
  const parts: Buffer[] = [Buffer.from(`{"total":${total},"${name}":[`)];
  for (const [i, item] of items.entries()) {
    if (i > 0) parts.push(COMMA);
    parts.push(item);
  }
  const members = JSON.stringify(more).slice(1);
  parts.push(Buffer.from(members === '}' ? ']}' : `],${members}`));
  return Buffer.concat(parts);
}

const COMMA = Buffer.from(',');

export async function patchSchedule(context: ApiContext, call: Call): Promise<Answer> {
  context.admit();
  const patch = call.body as SchedulePatch;
  const faults = templateFaults(patch, call.now_ms);
  if (faults.length > 0) throw new ApiError('validation_error', { errors: faults.slice(0, 100) });
  for (let tries = 1; ; tries++) {
    const row = await visible(context, call);
    const timing = patchedTiming(row, patch);
    const order = orderFaults(timing, patch);
    if (order.length > 0) throw new ApiError('validation_error', { errors: order });
    const fires = patch.cron !== undefined || patch.timezone !== undefined;
    const checked = fires ? checkedTiming(timing, call.now_ms) : storedTiming(timing);
    const template = await newTemplate(context, call.account_id, patch);
    const status: ScheduleStatus = patch.enabled === undefined ? row.status : patch.enabled ? 'active' : 'disabled';
    const moved = status !== row.status || !sameTiming(row, timing);
    const tick = !moved
      ? undefined
      : status === 'active' && checked !== null
        ? planned(context, checked, plannedFrom(row, timing, call))
        : null;
    const changes = { status, timing, ...(template === null ? {} : { template }), ...(tick === undefined ? {} : { tick }) };
    const outcome = await schedules.patchSchedule(context.client, row, changes);
    if (outcome === 'missing') throw missing(call);
    if (outcome === 'patched') {
      const shown = template === null ? [] : [[`${template.kind}_template`, template.shown] as const];
      return whenDurable(context, partitionOf(row.core), { body: joined(sentFields(call, patch, timing), shown, {}) });
    }
    if (tries === TRIES_MAX) unavailable();
  }
}

/** The id and the fields that were sent, but for the template. */
function sentFields(call: Call, patch: SchedulePatch, timing: ScheduleTiming): object {
  const time = (ms: number | null): string | null => (ms === null ? null : timestamp(ms));
  return {
    id: call.params['schedule_id'],
    ...(patch.enabled === undefined ? {} : { enabled: patch.enabled }),
    ...(patch.cron === undefined ? {} : { cron: patch.cron }),
    ...(patch.timezone === undefined ? {} : { timezone: patch.timezone }),
    ...(patch.start_at === undefined ? {} : { start_at: time(timing.start_ms) }),
    ...(patch.end_at === undefined ? {} : { end_at: time(timing.end_ms) }),
  };
}

export async function deleteSchedule(context: ApiContext, call: Call): Promise<Answer> {
  if (!(await schedules.deleteSchedule(context.client, call.account_id, coreOf(call)))) throw missing(call);
  return { body: { id: call.params['schedule_id'], status: 'deleted' } };
}

export async function listTasks(context: ApiContext, call: Call): Promise<Answer> {
  const { status = null, limit, offset } = call.query as unknown as ScheduleTaskListQuery;
  const { core } = await visible(context, call);
  const read = () => listScheduleTasks(context.client, call.account_id, core, { status, limit, offset });
  const { total, tasks } = await (isLong(limit) ? context.pages.read(call, read) : read());
  const schedule_id = ID_PREFIX.schedule + core;
  const items = tasks.map(({ row, batch }) => scheduledTaskBytes(row, batch, schedule_id));
  return { body: listBytes(total, 'tasks', items) };
}

export async function preview(context: ApiContext, call: Call): Promise<Answer> {
  const timing = storedTiming(await visible(context, call));
  return { body: { schedule_id: call.params['schedule_id'], executions: timing === null ? [] : executionsOf(call, timing) } };
}

/** Of an expression that is not stored; nothing is asked of Redis. */
export async function previewCron(_: ApiContext, call: Call): Promise<Answer> {
  const { cron, timezone } = call.query as unknown as CronPreviewQuery;
  const timing = checkedTiming({ cron, timezone, start_ms: null, end_ms: null }, call.now_ms);
  return { body: { executions: executionsOf(call, timing) } };
}

function executionsOf(call: Call, timing: Timing): ScheduleExecution[] {
  const { limit, start_from } = call.query as unknown as SchedulePreviewQuery;
  const after_ms = start_from === undefined ? call.now_ms : (timestampMs(start_from) ?? call.now_ms);
  return upcoming(timing, after_ms, limit).map((ms) => ({ scheduled_for: timestamp(ms), local_time: localTime(timing, ms) }));
}

export async function trigger(context: ApiContext, call: Call): Promise<Answer> {
  context.admit();
  const core = coreOf(call);
  const keyed = keyedBy(context, call, 'triggerSchedule');
  return claimed(context, keyed, () => triggerOnce(context, call, core, keyed));
}

async function triggerOnce(context: ApiContext, call: Call, core: string, keyed: Keyed | null): Promise<Answer> {
  const before = keyed && (await triggeredBefore(context, call, keyed));
  if (before) return before;
  const operation = newOperation();
  const members = call.trace === null ? '' : `,${JSON.stringify(traceFields(call.trace)).slice(1, -1)}`;
  for (let tries = 1; ; tries++) {
    const row = await visible(context, call);
    const [gone] = await deletedOf(context.client, call.account_id, row.plan.lanes);
    if (gone !== undefined) {
      const message = 'A rate limiter of its template was deleted.';
      throw new ApiError('rate_limiter_not_found', { rate_limiter: gone.name }, { message });
    }
    try {
      const outcome = await runs.trigger(context.client, row, { operation, now_ms: call.now_ms, members, idem: recordArgs(keyed, {}) });
      switch (outcome.kind) {
        case 'made':
          context.meter.scheduled(outcome.tasks);
          return await whenDurable(context, partitionOf(core), { body: runView(call, outcome.run) });
        case 'missing':
          throw missing(call);
        case 'taken':
          return (keyed && (await triggeredBefore(context, call, keyed))) ?? unavailable();
        case 'changed':
          break;
      }
    } catch (error) {
      if (!(error instanceof StageLost)) throw error;
    }
    if (tries === TRIES_MAX) unavailable();
  }
}

async function triggeredBefore(context: ApiContext, call: Call, keyed: Keyed): Promise<Answer | null> {
  const record = await readRecordBeside(context.client, coreOf(call), keyed.idem_key);
  if (record === null || record.done === null) return null;
  const run = runs.triggeredRun(record.done.reply.split(',').slice(1));
  return whenDurable(context, partitionOf(coreOf(call)), replayed({ body: runView(call, run) }));
}

function runView(call: Call, run: runs.TriggeredRun): object {
  return {
    schedule_id: call.params['schedule_id'],
    scheduled_for: timestamp(run.scheduled_ms),
    task_id: run.kind === 'task' ? taskId(run.core, run.index) : null,
    batch_id: run.kind === 'batch' ? ID_PREFIX.batch + run.core : null,
  };
}
