// When schedules fire: as it is given and patched, checked, and planned.
import { ApiError, type Fault } from '../base/errors.ts';
import { leadOf, nextTick, type Timing, timingOf } from '../schedules/preview.ts';
import { timestampMs } from '../schema/formats.ts';
import type { ScheduleCreate, SchedulePatch } from '../schema/types.gen.ts';
import type { PlannedTick, ScheduleRow, ScheduleTiming } from '../store/schedules.ts';
import type { Call } from './call.ts';
import type { ApiContext } from './context.ts';

/** What a create gives. */
export function givenTiming({ cron, timezone, start_at, end_at }: ScheduleCreate): ScheduleTiming {
  return {
    cron,
    timezone,
    start_ms: start_at === undefined ? null : timestampMs(start_at),
    end_ms: end_at === undefined ? null : timestampMs(end_at),
  };
}

/** Named after a field that was sent. */
export function orderFaults({ start_ms, end_ms }: ScheduleTiming, sent: { end_at?: unknown }): Fault[] {
  if (start_ms === null || end_ms === null || start_ms <= end_ms) return [];
  if (sent.end_at === undefined) return [{ path: '/start_at', message: 'must not be after end_at' }];
  return [{ path: '/end_at', message: 'must not be before start_at' }];
}

/** Throws 400 where it is no expression, no zone, or never fires. */
export function checkedTiming(given: ScheduleTiming, now_ms: number): Timing {
  const checked = timingOf(given, now_ms);
  if (checked.ok) return checked.timing;
  const { fault } = checked;
  if (fault.kind === 'invalid_timezone') throw new ApiError(fault.kind, { timezone: given.timezone });
  throw new ApiError(fault.kind, { cron: given.cron }, fault.kind === 'invalid_cron' ? { message: fault.message } : {});
}

/** The first tick after an instant, and when its run is to be made. */
export function planned({ schedule_lead_ms }: ApiContext, timing: Timing, after_ms: number): PlannedTick | null {
  const tick_ms = nextTick(timing, after_ms);
  return tick_ms === null ? null : { tick_ms, due_ms: tick_ms - leadOf(timing, tick_ms, schedule_lead_ms) };
}

/** What it is with what a patch sends. */
export function patchedTiming(row: ScheduleTiming, patch: SchedulePatch): ScheduleTiming {
  const time = (sent: string | null | undefined, before: number | null): number | null =>
    sent === undefined ? before : sent === null ? null : timestampMs(sent);
  return {
    cron: patch.cron ?? row.cron,
    timezone: patch.timezone ?? row.timezone,
    start_ms: time(patch.start_at, row.start_ms),
    end_ms: time(patch.end_at, row.end_ms),
  };
}

/**
 * Its ticks are planned anew from now on; of the same expression those that are overdue, too. Where it begins as before, and has not ended, none that
 * was decided is decided once more.
 */
export function plannedFrom(row: ScheduleRow, timing: ScheduleTiming, { now_ms }: Call): number {
  const continues = row.status === 'active' && row.cron === timing.cron && row.timezone === timing.timezone;
  if (!continues || row.tick_ms === null) return now_ms;
  return row.start_ms === timing.start_ms ? row.tick_ms - 1 : Math.min(row.tick_ms - 1, now_ms);
}

export function sameTiming(a: ScheduleTiming, b: ScheduleTiming): boolean {
  return a.cron === b.cron && a.timezone === b.timezone && a.start_ms === b.start_ms && a.end_ms === b.end_ms;
}
