// The requests that are running: bounds how long each may take, and tells a drain when the last one has ended.
import { monotonicMs } from '../base/clock.ts';
import { ApiError } from '../base/errors.ts';
import { Line, type Place } from '../base/line.ts';
import { refusal } from './answer.ts';
import type { Exchange } from './exchange.ts';

const SWEEP_MS = 250;

export class Pending {
  readonly #running = new Line<Exchange>();
  /** Runs while there is something to look at. */
  #timer: NodeJS.Timeout | null = null;
  #waiting: (() => void)[] = [];

  get count(): number {
    return this.#running.size;
  }

  add(x: Exchange): Place<Exchange> {
    this.#timer ??= setInterval(() => this.#sweep(), SWEEP_MS).unref();
    return this.#running.push(x);
  }

  /** Its work has ended, whether it was answered before that or not. */
  remove(place: Place<Exchange>): void {
    this.#running.remove(place);
    if (this.#running.size > 0) return;
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  /** Resolves when nothing runs, at the latest after `wait_ms`. */
  async idle(wait_ms: number): Promise<void> {
    if (this.#running.size === 0) return;
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve) => {
      this.#waiting.push(resolve);
      timer = setTimeout(resolve, wait_ms);
    });
    clearTimeout(timer);
  }

  stop(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
  }

  /** One timer for all: a request answers up to SWEEP_MS after its deadline. What it waits for goes on, unseen. */
  #sweep(): void {
    if (this.#running.size === 0) return this.stop();
    const now = monotonicMs();
    for (const x of this.#running.all()) {
      if (!x.done && now >= x.deadline_ms) x.answer(refusal(new ApiError('unavailable', {}, { retry_after_s: 1 })));
    }
  }
}
