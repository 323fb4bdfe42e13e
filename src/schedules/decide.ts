// What is to be done about the ticks of a schedule whose time has come. Pure: the schedule, the partition's clock and the
// settings go in, decisions come out; the script `schedule/fire` takes each or leaves it.
import type { Decision, DueSchedule } from '../store/schedule-runs.ts';
import type { PlannedTick } from '../store/schedules.ts';
import { leadOf, nextTick, storedTiming, type Timing, ticksBetween } from './preview.ts';

export interface DecideSettings {
  /** How far ahead of its time a run is made, at most. */
  lead_ms: number;
  /** Ticks that were missed are made up for when they are at most this old. */
  catch_up_ms: number;
}

export interface DecideContext {
  now_ms: number;
  /** A limiter that the template names is not there. */
  no_limiter: boolean;
  /** Decisions at most. */
  most: number;
}

/** A tick that is later than this was missed, as in schedule/fire; less is what a busy machine makes of a tick that is decided in its time. */
const LATE_MS = 2_000;

/** In order, each about the tick that the one before it names as the next. Null where this machine does not know the zone. */
export function decide(schedule: DueSchedule, settings: DecideSettings, { now_ms, no_limiter, most }: DecideContext): Decision[] | null {
  const timing = storedTiming(schedule);
  if (timing === null) return null;
  const decisions: Decision[] = [];
  let tick: PlannedTick | null = { tick_ms: schedule.tick_ms, due_ms: now_ms };
  while (tick !== null && tick.due_ms <= now_ms && decisions.length < most) {
    const decision = decideOne(timing, tick.tick_ms, settings, now_ms, no_limiter);
    decisions.push(decision);
    tick = decision.next;
  }
  return decisions;
}

function decideOne(timing: Timing, tick_ms: number, settings: DecideSettings, now_ms: number, no_limiter: boolean): Decision {
  const planned = (at_ms: number | null, before_ms?: number): PlannedTick | null =>
    at_ms === null ? null : { tick_ms: at_ms, due_ms: at_ms - leadOf(timing, at_ms, settings.lead_ms, before_ms) };
  const here_ms = nextTick(timing, tick_ms - 1);
  if (here_ms !== tick_ms) return { tick_ms, verdict: 'moved', ticks: 0, next: planned(here_ms) };
  const oldest_ms = now_ms - Math.max(settings.catch_up_ms, LATE_MS);
  if (tick_ms < oldest_ms) {
    const ticks = ticksBetween(timing, tick_ms, oldest_ms);
    return { tick_ms, verdict: 'missed', ticks, next: planned(nextTick(timing, oldest_ms - 1)) };
  }
  return { tick_ms, verdict: no_limiter ? 'limiter' : 'run', ticks: 1, next: planned(nextTick(timing, tick_ms), tick_ms) };
}
