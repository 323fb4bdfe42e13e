// Schedules on a rig: made, looked at and run by the clock that the test turns. A look decides what is due, then the
// tasks that are due are claimed and, unless the test keeps them, completed.
import assert from 'node:assert/strict';
import { newCore, partitionOf } from '../../src/base/id.ts';
import { createLog, limitedLog } from '../../src/base/log.ts';
import { leadOf, nextTick, storedTiming } from '../../src/schedules/preview.ts';
import { type DecideDeps, decideDue, type SkipReason } from '../../src/schedules/ticker.ts';
import { encodeTasks } from '../../src/store/encoded.ts';
import { keys } from '../../src/store/keys.ts';
import type { Claimed } from '../../src/store/partition.ts';
import { createSchedule, type NewTemplate, type PlannedTick, readSchedule, type ScheduleRow } from '../../src/store/schedules.ts';
import { ACCOUNT, type Rig, SETTINGS, tasksOf } from './rig.ts';

export interface ScheduleOptions {
  cron?: string;
  timezone?: string;
  start_ms?: number | null;
  end_ms?: number | null;
  enabled?: boolean;
  /** A batch of so many tasks instead of a single task. */
  batch?: number;
  limiter?: string;
  core?: string;
  account?: string;
}

export const LEAD_MS = 300_000;
export const CATCH_UP_MS = 3_600_000;

export class Ticks {
  readonly rig: Rig;
  readonly deps: DecideDeps;
  readonly made: number[] = [];
  readonly skipped: Record<SkipReason, number> = { overlap: 0, missed: 0, limiter: 0 };
  missing: readonly string[] = [];

  constructor(rig: Rig) {
    this.rig = rig;
    this.deps = {
      client: rig.redis,
      settings: { lead_ms: LEAD_MS, catch_up_ms: CATCH_UP_MS, sweep_ms: 1_000, grace_ms: SETTINGS.grace_ms },
      missingLimiters: async (_account, lanes) => lanes.filter(({ name }) => this.missing.includes(name)),
      meter: {
        made: (tasks) => void this.made.push(tasks),
        skipped: (reason, ticks) => {
          this.skipped[reason] += ticks;
        },
        lag: () => {},
      },
      log: limitedLog(createLog({ level: 'silent' })),
    };
  }

  planned(timing: Parameters<typeof storedTiming>[0], after_ms = this.rig.now_ms): PlannedTick | null {
    const stored = storedTiming(timing);
    assert.ok(stored);
    const tick_ms = nextTick(stored, after_ms);
    return tick_ms === null ? null : { tick_ms, due_ms: tick_ms - leadOf(stored, tick_ms, LEAD_MS) };
  }

  async make(options: ScheduleOptions = {}): Promise<string> {
    const { cron = '* * * * *', timezone = 'UTC', start_ms = null, end_ms = null, enabled = true, account = ACCOUNT } = options;
    const core = options.core ?? newCore(this.rig.partition, this.rig.now_ms);
    const timing = { cron, timezone, start_ms, end_ms };
    const created = await createSchedule(this.rig.redis, {
      core,
      account_id: account,
      status: enabled ? 'active' : 'disabled',
      timing,
      template: templateOf(options),
      first: enabled ? this.planned(timing) : null,
    });
    assert.equal(created, this.rig.now_ms);
    return core;
  }

  /** Looks until nothing is due now. */
  async look(partition = this.rig.partition): Promise<number> {
    for (let looks = 0; looks < 1_000; looks++) {
      const { more, next_ms } = await decideDue(this.deps, partition);
      if (!more) {
        if (this.rig.checks) await this.rig.check(partition);
        return next_ms;
      }
    }
    throw new Error('looks for ever');
  }

  /** Turns the clock by this much, looking whenever something is due and doing what comes due at once. */
  async run(ms: number, options: { work?: boolean } = {}): Promise<void> {
    const end_ms = this.rig.now_ms + ms;
    for (;;) {
      const next_ms = await this.look();
      if (options.work !== false) await this.work();
      if (next_ms === 0 || next_ms > end_ms) break;
      this.rig.redis.now_ms = Math.max(this.rig.now_ms, next_ms);
    }
    this.rig.redis.now_ms = end_ms;
    if (options.work !== false) await this.work();
  }

  /** Claims what is due and settles it. */
  async work(verdict: 'c' | 'f' | null = 'c'): Promise<Claimed[]> {
    await this.rig.tick('h1');
    const tasks = await this.rig.claim('h1', 500);
    if (verdict !== null && tasks.length > 0) await this.rig.settle('h1', tasks, verdict);
    return tasks;
  }

  async row(core: string, account = ACCOUNT): Promise<ScheduleRow> {
    const row = await readSchedule(this.rig.redis, account, core);
    assert.ok(row, core);
    return row;
  }

  /** The times that its runs are for, in order; those made by hand too. */
  async runs(core: string): Promise<number[]> {
    const flat = await this.rig.redis.zrange(keys.scheduleRuns(partitionOf(core), core), 0, '-1', 'WITHSCORES');
    return flat.filter((_, i) => i % 2 === 1).map(Number);
  }

  /** Ticks that were decided without a run. */
  async skips(core: string): Promise<number> {
    return Number(await this.rig.redis.hget(keys.schedule(partitionOf(core), core), 'i'));
  }
}

export function templateOf({ batch, limiter }: Pick<ScheduleOptions, 'batch' | 'limiter'>): NewTemplate {
  const shown = Buffer.from('{"target":"https://a.example/"}');
  const limit = limiter === undefined ? null : { name: limiter, lane: newCore(0, 0), kind: 'w', cost: 1, valid_ms: 0 };
  if (batch === undefined) {
    const [task] = tasksOf([{ limit, payload: '{"big":12345678901234567890,"e":[]}' }]);
    assert.ok(task);
    return { kind: 'task', shown, task };
  }
  return {
    kind: 'batch',
    shown,
    doc: Buffer.from('{"notifications":{},"options":{"atomic":true,"expiration":1,"hold":false}}'),
    tasks: encodeTasks(tasksOf(Array.from({ length: batch }, () => ({ limit })))),
    task_keys: ['abcdefghijklmnop'],
    expiration_ms: 3_600_000,
    movable: false,
    hold: false,
    notify: '',
    labels: [],
  };
}
