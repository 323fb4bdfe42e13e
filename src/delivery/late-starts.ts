// What a late start holds up. Limiters whose units drip in evenly tell their starts apart by when each was granted; one that comes late is
// nearer to those that were granted behind it, and what was granted before the limiter hears of it cannot be held back there. So who
// sends them waits with them here, until they are as far behind it as they were granted, but for some ms.
import { type Clock, monotonicMs } from '../base/clock.ts';
import type { FlightLimit } from '../store/claimed.ts';
import { GRANT_AHEAD_MS, type Late } from '../store/partition.ts';

/** A start that is later than this is told to its limiter; less is what a timer, and not knowing another clock to the ms, make of any. */
const LATE_MS = 3;
/** So much nearer than it was granted a start may come to a late one. */
const NEARER_MS = 15;
/** Whether it was heard is not waited for longer than this: messages may be held up, and the limiter with them. */
const HEARD_MS_MAX = 500;
/** Of one limiter so many late starts are known, the last ones. */
const LATES_MAX = 64;
/** Of so many limiters it is known what was late; longest ago is forgotten first. */
const LANES_MAX = 256;
/** These drip: a window's units come back after an interval, which is longer than any way, and slots when they are free. */
const DRIPPING = new Set(['b', 'l', 'p']);

interface LateStart {
  /** By the limiter's clock. */
  granted_ms: number;
  late_ms: number;
  /** When it started, by ours. */
  sent_ms: number;
  /** What was granted for later than this was granted by a limiter that knew of it; by the limiter's clock. */
  until_ms: number;
}

/** What its limiter is to be told of a start so long after it was granted; null where that is in time. */
export function lateStart({ lane, granted_ms, cost }: FlightLimit, age_ms: number): Late | null {
  return age_ms > LATE_MS ? { lane, granted_ms, late_ms: Math.ceil(age_ms), units: cost } : null;
}

export class LateStarts {
  readonly #monotonic: Clock;
  readonly #lanes = new Map<string, LateStart[]>();

  constructor(monotonic: Clock = monotonicMs) {
    this.#monotonic = monotonic;
  }

  /** A request would go out so long after it was granted: how many ms it has to wait yet. 0: it goes now; Infinity: too late for it. */
  wait_ms({ lane, kind, granted_ms, life_ms, spare }: FlightLimit, age_ms: number): number {
    if (age_ms > life_ms) return Number.POSITIVE_INFINITY;
    const at_ms = Number(granted_ms);
    let wait_ms = 0;
    for (const late of (!spare && this.#lanes.get(lane)) || []) {
      if (at_ms > late.granted_ms && at_ms <= late.until_ms) wait_ms = Math.max(wait_ms, late.late_ms - NEARER_MS - age_ms);
    }
    // Later than that it would start no more.
    if (age_ms + wait_ms > life_ms) wait_ms = 0;
    if (wait_ms === 0 && age_ms > NEARER_MS && DRIPPING.has(kind)) this.#add(lane, at_ms, age_ms);
    return wait_ms;
  }

  /** Limiters were told of these. */
  heard(lates: readonly Late[]): void {
    for (const { lane, granted_ms } of lates) {
      for (const late of this.#lanes.get(lane) ?? []) {
        if (late.granted_ms !== Number(granted_ms)) continue;
        const heard_ms = late.granted_ms + late.late_ms + this.#monotonic() - late.sent_ms;
        late.until_ms = Math.min(late.until_ms, heard_ms + GRANT_AHEAD_MS);
      }
    }
  }

  #add(lane: string, granted_ms: number, late_ms: number): void {
    const known = this.#lanes.get(lane) ?? [];
    const until_ms = granted_ms + late_ms + HEARD_MS_MAX;
    // Those of one moment are late together, and the first of them is the latest.
    if (
      known.some((one) => one.granted_ms <= granted_ms && one.late_ms >= late_ms && one.until_ms >= granted_ms + late_ms + GRANT_AHEAD_MS)
    )
      return;
    const others = known.filter((one) => one.until_ms > granted_ms).slice(1 - LATES_MAX);
    this.#lanes.delete(lane);
    this.#lanes.set(lane, [...others, { granted_ms, late_ms, sent_ms: this.#monotonic(), until_ms }]);
    for (const oldest of this.#lanes.keys()) {
      if (this.#lanes.size <= LANES_MAX) break;
      this.#lanes.delete(oldest);
    }
  }
}
