// Decides ticks when their time has come, in the partitions that it is given.
//
//   idle ──due time, bell, sweep──▶ look: what is due ──▶ decide, 256 ticks a round trip ──▶ look again, or sleep until the next
//                                         │
//                                         └── error, or nothing could be decided: again after a back-off
//
// All it needs to know is stored with the schedule, and each tick is decided by compare-and-set: two that look after the
// same partition, or one that comes back from the dead, decide nothing twice. A bell may be lost; the sweep is for that.
import { backoff_ms } from '../base/backoff.ts';
import { monotonicMs } from '../base/clock.ts';
import { type LimitedLog, type Log, limitedLog } from '../base/log.ts';
import type { Service } from '../base/service.ts';
import type { Hints } from '../store/hints.ts';
import { keys } from '../store/keys.ts';
import type { NamedLane } from '../store/records.ts';
import { type Decision, type DueSchedule, fire, readDue } from '../store/schedule-runs.ts';
import type { RedisClient } from '../store/script.ts';
import { type DecideSettings, decide } from './decide.ts';

export type SkipReason = 'overlap' | 'missed' | 'limiter';

/** Where a ticker's numbers go. */
export interface TickMeter {
  /** A run was made of so many tasks. */
  made(tasks: number): void;
  /** Ticks that made none. */
  skipped(reason: SkipReason, ticks: number): void;
  /** How late the decision that waited longest was, of each look that found some. */
  lag(ms: number): void;
}

/** Which of these limiters are deleted. */
export type MissingLimiters = (account_id: string, lanes: readonly NamedLane[]) => Promise<readonly NamedLane[]>;

export interface TickerDeps {
  client: RedisClient;
  hints: Hints;
  /** `grace_ms`: what a lease has beyond the timeout of its task. */
  settings: DecideSettings & { sweep_ms: number; grace_ms: number };
  missingLimiters: MissingLimiters;
  meter: TickMeter;
  log: Log;
}

/** What `decideDue` needs of them. */
export type DecideDeps = Omit<TickerDeps, 'hints' | 'log'> & { log: LimitedLog };

/** Schedules of one look, ticks of one schedule in it, and ticks of one round trip (about 20 ms of Redis). */
const LOOK_MAX = 64;
const TICKS_MAX = 32;
const ROUND_TRIP_MAX = 256;
/** Copying a segment of a batch takes as long as so many ticks. */
const SEGMENT_WEIGHT = 16;
/** Looking too early does no harm, and a timer cannot be set for months. */
const TIMER_MS_MAX = 60_000;
/** Where look after look found no schedule at all, and no bell rang, the next is up to so many sweeps away: a minute. */
const EMPTY_SWEEPS_MAX = 6;
const BACKOFF = { min_ms: 50, max_ms: 5_000 };

/** What one look came to. */
export interface Looked {
  now_ms: number;
  /** When something is due next, by the partition's clock; 0 = nothing is known of. */
  next_ms: number;
  /** More is due now. */
  more: boolean;
  /** Ticks that were decided by this one. */
  decided: number;
}

/** One look at a partition, and all decisions that it leads to. Throws what Redis throws; nothing is half decided. */
export async function decideDue(deps: DecideDeps, partition: number): Promise<Looked> {
  const { client, settings, meter, log } = deps;
  const { now_ms, next_ms, first_ms, rows } = await readDue(client, partition, LOOK_MAX);
  if (rows.length > 0) meter.lag(now_ms - first_ms);
  const { missing, unread, failure: unreadable } = await missingOf(deps, rows);
  const work: { schedule: DueSchedule; decision: Decision }[] = [];
  let more = rows.length === LOOK_MAX;
  let weight = 0;
  for (const schedule of rows) {
    if (unread.has(schedule)) continue;
    const each = 1 + schedule.plan.bases.length * SEGMENT_WEIGHT;
    const most = Math.min(TICKS_MAX, Math.max(weight === 0 ? 1 : 0, Math.floor((ROUND_TRIP_MAX - weight) / each)));
    if (most === 0) {
      more = true;
      continue;
    }
    const decisions = decide(schedule, settings, { now_ms, no_limiter: missing.has(schedule), most });
    if (decisions === null) log.error({ timezone: schedule.timezone }, 'a schedule has a time zone that this machine does not know');
    else for (const decision of decisions) work.push({ schedule, decision });
    weight += each * (decisions?.length ?? 0);
  }
  if (work.length === 0 && unreadable !== null) throw unreadable;
  if (work.length === 0) return { now_ms, next_ms, more: false, decided: 0 };
  const outcomes = await fire(client, partition, now_ms, settings.grace_ms, work);
  let decided = 0;
  let first_due_ms = next_ms;
  let failure: Error | null = unreadable;
  for (const [i, outcome] of outcomes.entries()) {
    const { decision } = work[i] as (typeof work)[number];
    if (outcome instanceof Error) {
      failure ??= outcome;
      continue;
    }
    if (outcome.outcome !== 'lost' && outcome.outcome !== 'stale') decided += 1;
    if (outcome.outcome === 'made') meter.made(outcome.tasks);
    else if (outcome.outcome === 'overlap') meter.skipped('overlap', 1);
    else if (outcome.outcome === 'skipped' && (decision.verdict === 'missed' || decision.verdict === 'limiter')) {
      meter.skipped(decision.verdict, decision.ticks);
    }
    if (outcome.outcome === 'stale' || outcome.outcome === 'lost') more = true;
    const due_ms = decision.next?.due_ms ?? 0;
    if (due_ms > 0 && due_ms <= now_ms) more = true;
    else if (due_ms > 0 && (first_due_ms === 0 || due_ms < first_due_ms)) first_due_ms = due_ms;
  }
  if (failure !== null && decided === 0) throw failure;
  return { now_ms, next_ms: first_due_ms, more: more || failure !== null, decided };
}

/** The schedules whose template has a limiter that is not there any more, and those of which that cannot be read now: they wait, not the others. */
async function missingOf(
  { missingLimiters }: Pick<TickerDeps, 'missingLimiters'>,
  rows: readonly DueSchedule[],
): Promise<{ missing: Set<DueSchedule>; unread: Set<DueSchedule>; failure: Error | null }> {
  const missing = new Set<DueSchedule>();
  const unread = new Set<DueSchedule>();
  let failure: Error | null = null;
  const limited = rows.filter(({ plan }) => plan.lanes.length > 0);
  await Promise.all(
    limited.map(async (row) => {
      try {
        if ((await missingLimiters(row.account_id, row.plan.lanes)).length > 0) missing.add(row);
      } catch (error) {
        unread.add(row);
        failure ??= error as Error;
      }
    }),
  );
  return { missing, unread, failure };
}

/** One partition's loop. */
class PartitionTicker {
  readonly #partition: number;
  readonly #deps: DecideDeps;
  #timer: NodeJS.Timeout | null = null;
  /** By this process's monotonic clock. */
  #wake_ms = Number.POSITIVE_INFINITY;
  #offset_ms = 0;
  #failures = 0;
  /** Looks in a row that found no schedule, without a bell between them. */
  #empty = 0;
  #running: Promise<void> | null = null;
  #again = false;
  #stopped = false;

  constructor(partition: number, deps: DecideDeps) {
    this.#partition = partition;
    this.#deps = deps;
  }

  /** Something is due at this time, by the partition's clock. */
  bell(message: string): void {
    const due_ms = Number(message);
    this.#empty = 0;
    this.#sleepUntil(monotonicMs() + this.#deps.settings.sweep_ms);
    if (Number.isFinite(due_ms)) this.#sleepUntil(due_ms - this.#offset_ms);
  }

  look(): void {
    if (this.#stopped) return;
    if (this.#running !== null) {
      this.#again = true;
      return;
    }
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#wake_ms = Number.POSITIVE_INFINITY;
    this.#running = this.#look().finally(() => {
      this.#running = null;
      if (this.#again) {
        this.#again = false;
        this.look();
      }
    });
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    await this.#running;
  }

  async #look(): Promise<void> {
    let next_ms = Number.POSITIVE_INFINITY;
    let sweeps = 1;
    try {
      const looked = await decideDue(this.#deps, this.#partition);
      this.#failures = looked.more && looked.decided === 0 ? this.#failures + 1 : 0;
      this.#offset_ms = looked.now_ms - monotonicMs();
      if (looked.next_ms === 0 && looked.decided === 0 && !looked.more)
        sweeps = Math.min(EMPTY_SWEEPS_MAX, 2 ** Math.min(this.#empty++, EMPTY_SWEEPS_MAX));
      else this.#empty = 0;
      if (looked.more && looked.decided > 0) this.#again = true;
      else if (looked.next_ms > 0) next_ms = looked.next_ms - this.#offset_ms;
    } catch (error) {
      this.#failures += 1;
      this.#deps.log.warn({ err: error, partition: this.#partition }, 'ticks could not be decided and will be tried again');
    }
    this.#sleepUntil(monotonicMs() + this.#deps.settings.sweep_ms * sweeps);
    this.#sleepUntil(next_ms);
    if (this.#failures > 0) this.#sleepUntil(monotonicMs() + backoff_ms(this.#failures, BACKOFF, Math.random));
  }

  /** Looks at the latest then; what is planned earlier stays. */
  #sleepUntil(wake_ms: number): void {
    if (this.#stopped || wake_ms >= this.#wake_ms) return;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#wake_ms = wake_ms;
    this.#timer = setTimeout(() => this.look(), Math.min(TIMER_MS_MAX, Math.max(0, Math.ceil(wake_ms - monotonicMs()))));
  }
}

export class Ticker implements Service {
  readonly name = 'ticker';
  readonly #deps: TickerDeps;
  readonly #decide: DecideDeps;
  readonly #partitions = new Map<number, PartitionTicker>();
  #wanted: readonly number[] = [];
  #held = false;
  #stopped = false;

  constructor(deps: TickerDeps) {
    this.#deps = deps;
    this.#decide = { ...deps, log: limitedLog(deps.log) };
  }

  async start(): Promise<void> {}

  /** Looks after these partitions from now on, and after no others. */
  assign(partitions: readonly number[]): void {
    if (this.#stopped) return;
    this.#wanted = partitions;
    const wanted = new Set(this.#held ? [] : partitions);
    for (const [partition, ticker] of this.#partitions) {
      if (wanted.has(partition)) continue;
      this.#partitions.delete(partition);
      this.#deps.hints.unsubscribe(keys.cronBell(partition));
      void ticker.stop();
    }
    for (const partition of wanted) {
      if (this.#partitions.has(partition)) continue;
      const ticker = new PartitionTicker(partition, this.#decide);
      this.#partitions.set(partition, ticker);
      ticker.look();
      // And once more for the bells that rang before they were heard.
      void this.#deps.hints.subscribe(keys.cronBell(partition), (message) => ticker.bell(message)).then(() => ticker.look());
    }
  }

  /** While Redis has no room for new work, ticks wait; afterwards those that were missed are made up for. */
  hold(held: boolean): void {
    this.#held = held;
    this.assign(this.#wanted);
  }

  /** Hints of this channel may have been lost. */
  heardAgain(channel: string): void {
    for (const [partition, ticker] of this.#partitions) if (keys.cronBell(partition) === channel) ticker.look();
  }

  async stop(): Promise<void> {
    if (this.#stopped) return;
    this.#stopped = true;
    for (const partition of this.#partitions.keys()) this.#deps.hints.unsubscribe(keys.cronBell(partition));
    await Promise.all([...this.#partitions.values()].map((ticker) => ticker.stop()));
  }
}
