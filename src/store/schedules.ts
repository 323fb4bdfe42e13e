// Schedules: made, read, listed, changed. Everything of one lies in one partition, and every change is one script.
import { partitionOf } from '../base/id.ts';
import { lastOf, newOperation, stage } from './batches.ts';
import type { EncodedTasks } from './encoded.ts';
import { StageLost } from './errors.ts';
import { type IdemArgs, NO_RECORD } from './idempotency.ts';
import { keys } from './keys.ts';
import { listPlaces, type PlacePage } from './listing.ts';
import type { Place } from './matching.ts';
import { lanesOf, type NamedLane, type NewTask, type Run, runsOf } from './records.ts';
import { execPipeline, type RedisClient, type RestValue } from './script.ts';
import { scheduleCreate, scheduleDelete, scheduleLook, schedulePatch, scheduleRead } from './scripts.gen.ts';

export type ScheduleStatus = 'active' | 'disabled';

/** When a schedule fires, as its owner gave it. */
export interface ScheduleTiming {
  cron: string;
  timezone: string;
  start_ms: number | null;
  end_ms: number | null;
}

/** What a schedule makes, ready to be stored. */
export type NewTemplate = {
  /** As it is shown: JSON. */
  shown: Buffer;
} & (
  | { kind: 'task'; task: NewTask }
  | {
      kind: 'batch';
      /** What a batch keeps besides tasks: a JSON object. */
      doc: Buffer;
      tasks: EncodedTasks;
      /** Idempotency keys of its tasks, hashed. */
      task_keys: readonly string[];
      expiration_ms: number;
      movable: boolean;
      hold: boolean;
      /** Which notifications it sends, see notes.ts; '' for none. */
      notify: string;
      /** Hashed, see labelHash. */
      labels: readonly string[];
    }
);

/** What the maker of a run needs to know of its template; stored as JSON. */
export interface RunPlan {
  /** First indexes of a batch's segments. */
  bases: readonly number[];
  runs: readonly Omit<Run, 'due_ms'>[];
  /** The limiters that it meant when it was made. */
  lanes: readonly NamedLane[];
}

export interface ScheduleRow extends ScheduleTiming {
  core: string;
  account_id: string;
  status: ScheduleStatus;
  version: string;
  created_ms: number;
  updated_ms: number;
  /** The tick that is decided next; null: none. */
  tick_ms: number | null;
  /** Runs whose time has come, and the time of the latest of them. */
  executions: number;
  last_ms: number | null;
  last_error: { code: string; at_ms: number } | null;
  kind: 'task' | 'batch';
  shown: Buffer;
  plan: RunPlan;
  /** Name of the template: another one, another name. */
  template: string;
}

/** A tick to decide, and when that is to be done. */
export interface PlannedTick {
  tick_ms: number;
  due_ms: number;
}

export interface NewSchedule {
  core: string;
  account_id: string;
  status: ScheduleStatus;
  timing: ScheduleTiming;
  template: NewTemplate;
  first: PlannedTick | null;
  idem?: IdemArgs;
}

const FIRST_TEMPLATE = '1';

/** Makes a schedule; returns its creation time (ms), or `taken` where its idempotency key has a record. Throws StageLost. */
export async function createSchedule(client: RedisClient, schedule: NewSchedule): Promise<number | 'taken'> {
  const { core, template, first } = schedule;
  const partition = partitionOf(core);
  const pipeline = await stageTemplate(client, core, FIRST_TEMPLATE, template);
  scheduleCreate.queue(
    pipeline,
    { meta: keys.partition(partition) },
    {
      core,
      account: schedule.account_id,
      status: schedule.status,
      tick: first === null ? '' : String(first.tick_ms),
      due: first === null ? '' : String(first.due_ms),
      ...(schedule.idem ?? NO_RECORD),
      parts: [...templateParts(template), ...fieldParts(schedule.timing, template)],
    },
  );
  const [outcome, created_ms] = lastOf(await execPipeline(client, pipeline)) as [number, number];
  if (outcome === 0) throw new StageLost();
  return outcome === 1 ? created_ms : 'taken';
}

export interface SchedulePatch {
  status: ScheduleStatus;
  timing: ScheduleTiming;
  /** undefined: it stays. */
  template?: NewTemplate;
  /** null: none is left, or it is disabled; undefined: as it was. */
  tick?: PlannedTick | null;
}

/** `changed`: by another, since it was read as `row`. Throws StageLost. */
export async function patchSchedule(
  client: RedisClient,
  row: ScheduleRow,
  { status, timing, template, tick }: SchedulePatch,
): Promise<'patched' | 'missing' | 'changed'> {
  const { core } = row;
  const name = template === undefined ? '' : newOperation();
  const pipeline = template === undefined ? client.pipeline() : await stageTemplate(client, core, name, template);
  schedulePatch.queue(
    pipeline,
    { meta: keys.partition(partitionOf(core)) },
    {
      core,
      account: row.account_id,
      version: row.version,
      status,
      seen: row.tick_ms === null ? '' : String(row.tick_ms),
      tick: tick === undefined ? 'keep' : tick === null ? '' : String(tick.tick_ms),
      due: tick === undefined || tick === null ? '' : String(tick.due_ms),
      template: name,
      parts: [...(template === undefined ? [0, 0] : templateParts(template)), ...fieldParts(timing, template)],
    },
  );
  const outcome = lastOf(await execPipeline(client, pipeline)) as string;
  if (outcome === 'lost') throw new StageLost();
  return outcome as 'patched' | 'missing' | 'changed';
}

async function stageTemplate(client: RedisClient, core: string, name: string, template: NewTemplate) {
  const segments = template.kind === 'task' ? [] : template.tasks.segments;
  return stage(client, segments, ({ base }) => keys.scheduleStaged(partitionOf(core), core, name, base));
}

/** Segments and task keys, as lua/lib/template.lua takes them. */
function templateParts(template: NewTemplate): RestValue[] {
  if (template.kind === 'task') return [0, 0];
  const { tasks, task_keys } = template;
  return [tasks.segments.length, ...tasks.segments.map(({ base }) => base), task_keys.length, ...task_keys];
}

/** Fields of the hash, their number in front, and those of the document. */
function fieldParts({ cron, timezone, start_ms, end_ms }: ScheduleTiming, template?: NewTemplate): RestValue[] {
  const timing = ['z', cron, 'w', timezone, 'b', start_ms ?? '', 'e', end_ms ?? ''];
  if (template === undefined) return [timing.length, ...timing];
  const fields = [...timing, 'y', template.kind === 'task' ? 't' : 'b', 'lim', lanesIn(template).length > 0 ? '1' : '0'];
  return [fields.length, ...fields, 'd', template.shown, ...documentFields(template)];
}

function lanesIn(template: NewTemplate): NamedLane[] {
  return template.kind === 'task' ? lanesOf([template.task]) : template.tasks.lanes;
}

function documentFields(template: NewTemplate): RestValue[] {
  if (template.kind === 'task') {
    const { head, payload } = template.task;
    const runs = runsOf([template.task], 0, 1, 1).map(({ due_ms: _, ...run }) => run);
    const plan: RunPlan = { bases: [], runs, lanes: lanesIn(template) };
    return ['m', JSON.stringify(plan), 'h', head, ...(payload === null ? [] : ['p', payload])];
  }
  const { tasks, doc, expiration_ms, movable, hold, notify, labels } = template;
  const bases = tasks.segments.map(({ base }) => base);
  const plan: RunPlan = { bases, runs: tasks.runs.map(({ due_ms: _, ...run }) => run), lanes: tasks.lanes };
  const last_bytes = tasks.segments.at(-1)?.bytes ?? 0;
  const options = [tasks.count, last_bytes, expiration_ms, movable ? 1 : 0, hold ? 1 : 0, labels.join(''), notify];
  return ['m', JSON.stringify(plan), 'c', bases.join(','), 'o', doc, 'r', options.join(' ')];
}

/** A schedule of this account as it stands now, null where there is none. */
export async function readSchedule(client: RedisClient, account_id: string, core: string): Promise<ScheduleRow | null> {
  const [found, ahead, latest_ms, fields, doc] = await scheduleRead.callBuffer(
    client,
    { meta: keys.partition(partitionOf(core)) },
    { core, account: account_id },
  );
  if (found === 0) return null;
  const [, s, v, t, u, k, n, , f, z, w, b, e, y, g] = fields;
  const [shown, plan] = doc;
  const [code, at_ms] = f ? f.toString().split(' ') : [];
  return {
    core,
    account_id,
    status: text(s) as ScheduleStatus,
    version: text(v),
    created_ms: Number(t),
    updated_ms: Number(u),
    tick_ms: time(text(k)),
    executions: Number(n) - ahead,
    last_ms: latest_ms > 0 ? latest_ms : null,
    last_error: code === undefined ? null : { code, at_ms: Number(at_ms) },
    cron: text(z),
    timezone: text(w),
    start_ms: time(text(b)),
    end_ms: time(text(e)),
    kind: text(y) === 't' ? 'task' : 'batch',
    shown: shown ?? Buffer.from('{}'),
    plan: JSON.parse(text(plan)) as RunPlan,
    template: text(g),
  };
}

function text(value: Buffer | null | undefined): string {
  return value?.toString() ?? '';
}

/** Milliseconds as they are stored, '' for none. */
export function time(value: string): number | null {
  return value === '' ? null : Number(value);
}

/** Deletes it at once. False where the account has no such schedule. */
export async function deleteSchedule(client: RedisClient, account_id: string, core: string): Promise<boolean> {
  return (await scheduleDelete.call(client, { meta: keys.partition(partitionOf(core)) }, { core, account: account_id })) === 1;
}

/** A page of an account's schedules, newest first; `bytes` is the size of what would be shown of them. */
export async function listSchedules(
  client: RedisClient,
  partitions: number,
  account_id: string,
  page: PlacePage & { status: ScheduleStatus | null; bytes_max: number },
): Promise<{ total: number; rows: ScheduleRow[]; bytes: number; next?: Place | null }> {
  const lists = Array.from({ length: partitions }, (_, p) => keys.accountSchedules(p, account_id, page.status ?? undefined));
  const { total, places, ...next } = await listPlaces(client, lists, page);
  const sizes = await Promise.all(places.map(({ core }) => client.hstrlen(keys.scheduleDocument(partitionOf(core), core), 'd')));
  const bytes = sizes.reduce((sum, size) => sum + size, 0);
  if (bytes > page.bytes_max) return { total, rows: [], bytes };
  const rows = await Promise.all(places.map(({ core }) => readSchedule(client, account_id, core)));
  return { total, rows: rows.filter((row) => row !== null), bytes, ...next };
}

/** For how long the tick that waits longest should have been decided (ms). */
export async function scheduleLag(client: RedisClient, partition: number): Promise<number> {
  return scheduleLook.call(client, { meta: keys.partition(partition) }, {});
}
