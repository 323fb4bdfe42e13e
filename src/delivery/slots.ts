// Calls that hold a slot of a limiter. Where their partition has not answered for long, others may have taken over what was claimed
// there, and its slots: such a call must end.
import { Line, type Place } from '../base/line.ts';
import type { RunningCall } from '../outbound/call.ts';
import type { Since } from './fence.ts';
import type { Pump } from './pump.ts';

interface Taken {
  call: RunningCall;
  pump: Pick<Pump, 'fence'>;
  /** When its task was claimed. */
  since: Since;
}

/** How often they are held against the fence. */
const FENCE_MS = 250;

export class Slots {
  readonly #calls = new Line<Taken>();
  #timer: NodeJS.Timeout | null = null;

  taken(taken: Taken): Place<Taken> {
    this.#timer ??= setInterval(() => this.#fence(), FENCE_MS);
    return this.#calls.push(taken);
  }

  left(place: Place<Taken>): void {
    this.#calls.remove(place);
  }

  close(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
  }

  #fence(): void {
    if (this.#calls.size === 0) this.close();
    for (const { call, pump, since } of this.#calls.all()) if (!pump.fence.holds(since)) call.abort('shutdown');
  }
}
