// The target of all callbacks: counts, and notes how late those were that say in their URL when they were due.
import { Helper } from './process.ts';
import type { ReceiverQuestion } from './receiver.process.ts';

export class Receiver {
  readonly #helper: Helper;

  private constructor(helper: Helper) {
    this.#helper = helper;
  }

  static async start(): Promise<Receiver> {
    return new Receiver(await Helper.start(new URL('./receiver.process.ts', import.meta.url)));
  }

  get origin(): string {
    return `http://127.0.0.1:${this.#helper.port}`;
  }

  /** Forgets what it counted and noted. */
  async reset(): Promise<void> {
    await this.#ask({ type: 'reset' });
  }

  /** Resolves when `count` requests have come in since the last reset. Nothing else may be asked meanwhile. */
  async received(count: number): Promise<void> {
    await this.#ask({ type: 'wait', count });
  }

  async count(): Promise<number> {
    return (await this.#ask({ type: 'read' })).count;
  }

  /** When the tasks with `?task=GROUP` were answered, group by group, in milliseconds of `machineMs`. */
  answers_ms(): Promise<Record<string, number[]>> {
    return this.#helper.ask({ type: 'answers' } satisfies ReceiverQuestion);
  }

  /**
   * Arrival minus `?due=` (milliseconds of the system's clock), or `?sent=` (of its monotonic one), or the last answer to
   * a task of the group that `?finish=` names.
   */
  async delays_ms(): Promise<number[]> {
    return (await this.#ask({ type: 'read' })).delays_ms;
  }

  cpu_s(): number {
    return this.#helper.cpu_s();
  }

  stop(): Promise<void> {
    return this.#helper.stop();
  }

  #ask(question: ReceiverQuestion): Promise<{ count: number; delays_ms: number[] }> {
    return this.#helper.ask(question);
  }
}

/** Milliseconds of the clock that all processes of one machine share and nobody sets. */
export function machineMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
