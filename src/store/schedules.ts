// Schedules: made, read, changed, fired. Everything of one lies in one partition, and every change is one script.
import { derivedCore, newCore, partitionOf } from '../base/id.ts';
import { STAGE_TTL_MS } from '../base/limits.ts';
import { flatRuns, lastOf, newOperation, stage } from './batches.ts';
import type { EncodedTasks } from './encoded.ts';
import { StageLost } from './errors.ts';
import { type IdemArgs, NO_RECORD } from './idempotency.ts';
import { keys } from './keys.ts';
import { listPlaces } from './listing.ts';
import type { NewTask, Run } from './records.ts';
import { execPipeline, type RedisClient, type RestValue } from './script.ts';
import {
  scheduleCreate,
  scheduleDelete,
  scheduleDue,
  scheduleFire,
  scheduleLook,
  schedulePatch,
  scheduleRead,
  scheduleStage,
  scheduleTrigger,
} from './scripts.gen.ts';

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
  /** Names of the limiters in it. */
  limiters: readonly string[];
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
      /** Hashed, see labelHash. */
      labels: readonly string[];
    }
);

/** What the maker of a run needs to know of its template; stored as JSON. */
export interface RunPlan {
  /** First indexes of a batch's segments. */
  bases: readonly number[];
  runs: readonly Omit<Run, 'due_ms'>[];
  limiters: readonly string[];
}

export interface ScheduleRow extends ScheduleTiming {
  core: string;
  account_id: string;
  status: ScheduleStatus;
  version: string;
  created_ms: number;
  updated_ms: number;
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
/** More segments than these are copied one by one before the run is made: each takes about a millisecond. */
const SEGMENTS_AT_ONCE_MAX = 2;

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
      parts: [...templateParts(template), ...timingFields(schedule.timing), ...templateFields(template)],
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
      tick: tick === undefined ? 'keep' : tick === null ? '' : String(tick.tick_ms),
      due: tick === undefined || tick === null ? '' : String(tick.due_ms),
      template: name,
      parts: [
        ...(template === undefined ? [0, 0] : templateParts(template)),
        ...timingFields(timing),
        ...(template === undefined ? [] : templateFields(template)),
      ],
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

function timingFields({ cron, timezone, start_ms, end_ms }: ScheduleTiming): RestValue[] {
  return ['z', cron, 'w', timezone, 'b', start_ms ?? '', 'e', end_ms ?? ''];
}

/** Fields of both kinds, so that what one leaves empty takes the place of what the other had. */
function templateFields(template: NewTemplate): RestValue[] {
  const { shown, limiters } = template;
  const rest = (plan: RunPlan, y: string, fields: readonly RestValue[]): RestValue[] => [
    ...['y', y, 'd', shown, 'm', JSON.stringify(plan), 'lim', limiters.length > 0 ? '1' : '0'],
    ...fields,
  ];
  if (template.kind === 'task') {
    const { head, payload, origin, timeout_s } = template.task;
    const plan = { bases: [], runs: [{ from: 0, to: 0, origin, timeout_s }], limiters };
    return rest(plan, 't', ['h', head, 'p', payload ?? '', 'c', '', 'o', '', 'r', '']);
  }
  const { tasks, doc, expiration_ms, movable, hold, labels } = template;
  const bases = tasks.segments.map(({ base }) => base);
  const runs = tasks.runs.map(({ due_ms: _, ...run }) => run);
  const last_bytes = tasks.segments.at(-1)?.pages.byteLength ?? 0;
  const options = [tasks.count, last_bytes, expiration_ms, movable ? 1 : 0, hold ? 1 : 0, labels.join('')];
  return rest({ bases, runs, limiters }, 'b', ['h', '', 'p', '', 'c', bases.join(','), 'o', doc, 'r', options.join(' ')]);
}

/** A schedule of this account as it stands now, null where there is none. */
export async function readSchedule(client: RedisClient, account_id: string, core: string): Promise<ScheduleRow | null> {
  const [found, ahead, latest_ms, fields] = await scheduleRead.callBuffer(
    client,
    { meta: keys.partition(partitionOf(core)) },
    { core, account: account_id },
  );
  if (found === 0) return null;
  const [, s, v, t, u, , n, , f, z, w, b, e, y, d, m, g] = fields;
  const [code, at_ms] = f ? f.toString().split(' ') : [];
  return {
    core,
    account_id,
    status: text(s) as ScheduleStatus,
    version: text(v),
    created_ms: Number(t),
    updated_ms: Number(u),
    executions: Number(n) - ahead,
    last_ms: latest_ms > 0 ? latest_ms : null,
    last_error: code === undefined ? null : { code, at_ms: Number(at_ms) },
    cron: text(z),
    timezone: text(w),
    start_ms: time(text(b)),
    end_ms: time(text(e)),
    kind: text(y) === 't' ? 'task' : 'batch',
    shown: d ?? Buffer.from('{}'),
    plan: JSON.parse(text(m)) as RunPlan,
    template: text(g),
  };
}

function text(value: Buffer | null | undefined): string {
  return value?.toString() ?? '';
}

function time(value: string): number | null {
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
  page: { status: ScheduleStatus | null; limit: number; offset: number; bytes_max: number },
): Promise<{ total: number; rows: ScheduleRow[]; bytes: number }> {
  const lists = Array.from({ length: partitions }, (_, p) => keys.accountSchedules(p, account_id, page.status ?? undefined));
  const { total, places } = await listPlaces(client, lists, page);
  const sizes = await Promise.all(places.map(({ core }) => client.hstrlen(keys.schedule(partitionOf(core), core), 'd')));
  const bytes = sizes.reduce((sum, size) => sum + size, 0);
  if (bytes > page.bytes_max) return { total, rows: [], bytes };
  const rows = await Promise.all(places.map(({ core }) => readSchedule(client, account_id, core)));
  return { total, rows: rows.filter((row) => row !== null), bytes };
}

/** A schedule whose next tick is to be decided. */
export interface DueSchedule extends ScheduleTiming {
  core: string;
  account_id: string;
  version: string;
  tick_ms: number;
  kind: 'task' | 'batch';
  plan: RunPlan;
  template: string;
}

export interface DueReply {
  now_ms: number;
  /** When the next one behind these is due, by the partition's clock; 0 = none is. */
  next_ms: number;
  /** Since when the first of these waits. */
  first_ms: number;
  rows: DueSchedule[];
}

/** Up to `most` schedules whose next tick is to be decided now. */
export async function readDue(client: RedisClient, partition: number, most: number): Promise<DueReply> {
  const [now_ms, next_ms, first_ms, rows] = await scheduleDue.call(client, { meta: keys.partition(partition) }, { most });
  return {
    now_ms,
    next_ms,
    first_ms,
    rows: rows.map(([core = '', account_id = '', version = '', k, cron = '', timezone = '', b = '', e = '', y, m = '', template = '']) => ({
      ...{ core, account_id, version, tick_ms: Number(k), cron, timezone, start_ms: time(b), end_ms: time(e), template },
      kind: y === 't' ? ('task' as const) : ('batch' as const),
      plan: JSON.parse(m) as RunPlan,
    })),
  };
}

/** `run`: make it; else why there is none. */
export type Verdict = 'run' | 'missed' | 'limiter' | 'moved';

/** How one tick is to be decided, and which one comes after it. */
export interface Decision {
  tick_ms: number;
  verdict: Verdict;
  /** Ticks that this decides; more than one only of those missed. */
  ticks: number;
  next: PlannedTick | null;
}

/** `made`, `overlap` (the run before is unfinished), `again` (the tick has a run), `skipped` (the verdict said so); the others decided nothing. */
export type FireOutcome = 'made' | 'overlap' | 'again' | 'skipped' | 'stale' | 'lost';

/** Decides ticks in one round trip, each by compare-and-set; those of one schedule follow one another. */
export async function fire(
  client: RedisClient,
  partition: number,
  now_ms: number,
  work: readonly { schedule: DueSchedule; decision: Decision }[],
): Promise<(Error | { outcome: FireOutcome; tasks: number })[]> {
  const pipeline = client.pipeline();
  const places: number[] = [];
  let commands = 0;
  for (const { schedule, decision } of work) {
    const { core, version, plan, template } = schedule;
    const { tick_ms, verdict, ticks, next } = decision;
    const makes = verdict === 'run';
    const run_core = runCore(schedule, schedule.kind === 'task' ? now_ms : tick_ms, `${core} ${template} ${tick_ms}`);
    const staged = makes && queueStaging(pipeline, schedule, run_core);
    scheduleFire.queue(
      pipeline,
      { meta: keys.partition(partition) },
      {
        ...{ core, version, tick: tick_ms, verdict, ticks, run_core },
        next_tick: next === null ? '' : String(next.tick_ms),
        next_due: next === null ? '' : String(next.due_ms),
        staged: staged ? 1 : 0,
        parts: makes ? runParts(plan, tick_ms) : [],
      },
    );
    commands += staged ? plan.bases.length : 0;
    places.push(commands++);
  }
  const replies = await execPipeline(client, pipeline);
  return places.map((place) => {
    const [error, reply] = replies[place] ?? [new Error('no reply'), null];
    if (error !== null) return error;
    const [outcome, tasks] = reply as [FireOutcome, number];
    return { outcome, tasks };
  });
}

/** A tray may be opened by whoever comes first; a batch is named by what it is for, so that it cannot be made twice. */
function runCore({ core, kind }: { core: string; kind: 'task' | 'batch' }, at_ms: number, seed: string): string {
  const partition = partitionOf(core);
  return kind === 'task' ? newCore(partition, at_ms) : derivedCore(partition, at_ms, seed);
}

/** Whether segments have to be copied first; then that is queued. */
function queueStaging(
  pipeline: ReturnType<RedisClient['pipeline']>,
  { core, plan, template }: { core: string; plan: RunPlan; template: string },
  batch: string,
): boolean {
  if (plan.bases.length <= SEGMENTS_AT_ONCE_MAX) return false;
  const meta = keys.partition(partitionOf(core));
  for (const base of plan.bases) {
    scheduleStage.queue(pipeline, { meta }, { core, template, batch, base: String(base), ttl_ms: STAGE_TTL_MS });
  }
  return true;
}

function runParts({ bases, runs }: RunPlan, due_ms: number): RestValue[] {
  return [bases.length, ...bases, ...flatRuns(runs.map((run) => ({ ...run, due_ms })))];
}

export type TriggerOutcome =
  | { kind: 'made'; run: TriggeredRun; tasks: number }
  /** `changed`: by another, since it was read as `row`. */
  | { kind: 'missing' | 'changed' | 'taken' };

export interface TriggeredRun {
  kind: 'task' | 'batch';
  core: string;
  index: number;
  scheduled_ms: number;
}

/** Makes one run now. Throws StageLost. */
export async function trigger(
  client: RedisClient,
  row: ScheduleRow,
  options: { operation: string; now_ms: number; idem?: IdemArgs },
): Promise<TriggerOutcome> {
  const { core, account_id, plan, template } = row;
  const run_core = runCore(row, options.now_ms, `${core} ${options.operation}`);
  const pipeline = client.pipeline();
  const staged = queueStaging(pipeline, row, run_core);
  scheduleTrigger.queue(
    pipeline,
    { meta: keys.partition(partitionOf(core)) },
    {
      ...{ core, account: account_id, template, op: options.operation, run_core, staged: staged ? 1 : 0 },
      ...(options.idem ?? NO_RECORD),
      parts: runParts(plan, 0),
    },
  );
  const [outcome, ...made] = lastOf(await execPipeline(client, pipeline)) as [string, string, string, number, number, number];
  if (outcome === 'lost') throw new StageLost();
  if (outcome !== 'made') return { kind: outcome as 'missing' | 'changed' | 'taken' };
  return { kind: 'made', run: triggeredRun(made), tasks: made[4] };
}

/** What was made, as lua/schedule/trigger.lua names it behind the outcome. */
export function triggeredRun([kind, core, index, scheduled_ms]: readonly unknown[]): TriggeredRun {
  return { kind: kind === 't' ? 'task' : 'batch', core: String(core), index: Number(index), scheduled_ms: Number(scheduled_ms) };
}

/** For how long the tick that waits longest should have been decided (ms). */
export async function scheduleLag(client: RedisClient, partition: number): Promise<number> {
  return scheduleLook.call(client, { meta: keys.partition(partition) }, {});
}
