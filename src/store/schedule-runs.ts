// Runs of schedules: which ticks are to be decided, deciding them, and runs made by hand. Every change is one script.
import { derivedCore, newCore, partitionOf } from '../base/id.ts';
import { STAGE_TTL_MS } from '../base/limits.ts';
import { flatLanes, flatRuns, lastOf } from './batches.ts';
import { StageLost } from './errors.ts';
import { type IdemArgs, NO_RECORD } from './idempotency.ts';
import { keys } from './keys.ts';
import { withMembers } from './records.ts';
import { type PlannedTick, type RunPlan, type ScheduleRow, type ScheduleTiming, time } from './schedules.ts';
import { execPipeline, type RedisClient, type RestValue } from './script.ts';
import { scheduleDue, scheduleFire, scheduleStage, scheduleTrigger } from './scripts.gen.ts';

/** More segments than these are copied one by one before the run is made: each takes about a millisecond. */
const SEGMENTS_AT_ONCE_MAX = 2;

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
    rows: rows.map(([core = '', account_id = '', version = '', k, cron = '', timezone = '', b = '', e = '', y, template = '', m = '']) => ({
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
  grace_ms: number,
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
        ...{ core, version, tick: tick_ms, verdict, ticks, run_core, grace_ms },
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

/** The same for segments whose heads get further members: a script knows nothing of heads, so they are read and written here. */
async function queueChanged(
  client: RedisClient,
  pipeline: ReturnType<RedisClient['pipeline']>,
  { core, plan, template }: { core: string; plan: RunPlan; template: string },
  batch: string,
  members: string,
): Promise<true> {
  const partition = partitionOf(core);
  for (const base of plan.bases) {
    const segment = await client.hgetallBuffer(keys.scheduleTemplate(partition, core, template, base));
    const fields = Object.entries(segment).flatMap(([field, value]) => [
      field,
      /^\d+$/.test(field) ? withMembers(value, Buffer.from(members)) : value,
    ]);
    // Another template has taken its place: the trigger will say so.
    if (fields.length === 0) break;
    const key = keys.staged(partition, batch, 'new', base);
    // Of a try before, with another template, there may be more.
    pipeline
      .del(key)
      .hset(key, ...fields)
      .pexpire(key, STAGE_TTL_MS);
  }
  return true;
}

function runParts({ bases, runs, lanes }: RunPlan, due_ms: number): RestValue[] {
  return [bases.length, ...bases, ...flatRuns(runs.map((run) => ({ ...run, due_ms }))), ...flatLanes(lanes)];
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

export interface TriggerOptions {
  operation: string;
  now_ms: number;
  /** Further members for the heads of its tasks: JSON with a comma in front. */
  members?: string;
  idem?: IdemArgs;
}

/** Makes one run now. Throws StageLost. */
export async function trigger(client: RedisClient, row: ScheduleRow, options: TriggerOptions): Promise<TriggerOutcome> {
  const { core, account_id, plan, template } = row;
  const { operation, members = '' } = options;
  const run_core = runCore(row, options.now_ms, `${core} ${operation}`);
  const pipeline = client.pipeline();
  const changed = members !== '' && row.kind === 'batch';
  const staged = changed ? await queueChanged(client, pipeline, row, run_core, members) : queueStaging(pipeline, row, run_core);
  scheduleTrigger.queue(
    pipeline,
    { meta: keys.partition(partitionOf(core)) },
    {
      ...{ core, account: account_id, template, op: operation, run_core, staged: staged ? 1 : 0 },
      trace: members,
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
