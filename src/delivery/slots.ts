// Calls that hold a slot of a limiter. Where their partition has not answered for long, others may have taken over what was claimed
// there, and its slots: such a call must end.
import type { RunningCall } from '../outbound/call.ts';
import type { Pump } from './pump.ts';

/** How often they are held against the fence. */
const FENCE_MS = 250;

export class Slots {
  readonly #calls = new Map<RunningCall, Pick<Pump, 'fence'>>();
  #timer: NodeJS.Timeout | null = null;

  taken(call: RunningCall, pump: Pick<Pump, 'fence'>): void {
    this.#calls.set(call, pump);
    this.#timer ??= setInterval(() => this.#fence(), FENCE_MS);
  }

  left(call: RunningCall): void {
    this.#calls.delete(call);
  }

  close(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
  }

  #fence(): void {
    if (this.#calls.size === 0) this.close();
    for (const [call, pump] of this.#calls) if (pump.fence.passed) call.abort('shutdown');
  }
}
