// A worker thread for short calls that would hold up the thread that needs their answer: one function, one call at a time.
import { Piscina } from 'piscina';
import { ApiError } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import type { Service } from '../base/service.ts';
import { endsOnceLoaded } from './loading.ts';

/**
 * Where cores are few, who waits for a small answer goes before who works on a large one. Linux and macOS; else no effect. No more than this: a third of the
 * weight of others. With 10 it is a tenth, and beside four others that wanted the two cores creates of 1,000 tasks took more than 10 s.
 */
const NICE = 5;
/** Its memory stays as long; to start one costs 0.3 s of a core, and 0.2 s until it is compiled (docs/decisions/0060). */
const IDLE_MS = 600_000;

export interface CallWorkerOptions {
  name: string;
  /** Module whose default export is the function. */
  entry: URL;
  /** For the module, as `workerData` of node:worker_threads; structured-cloneable. */
  data: unknown;
  /** The thread is started when there is a call, and ends when there was none for a while. */
  on_demand: boolean;
  /** Calls that may wait; more are refused. */
  waiting_max: number;
  log: Log;
}

export class CallWorker<In, Out> implements Service {
  readonly name: string;
  readonly #options: CallWorkerOptions;
  #piscina: Piscina | null = null;
  #end = async (): Promise<void> => {};

  constructor(options: CallWorkerOptions) {
    this.name = options.name;
    this.#options = options;
  }

  async start(): Promise<void> {
    const { name, entry, data, on_demand, waiting_max, log } = this.#options;
    this.#piscina = new Piscina({
      filename: entry.href,
      workerData: data,
      minThreads: on_demand ? 0 : 1,
      maxThreads: 1,
      concurrentTasksPerWorker: 1,
      idleTimeout: on_demand ? IDLE_MS : Number.POSITIVE_INFINITY,
      maxQueue: waiting_max,
      niceIncrement: NICE,
    });
    this.#end = endsOnceLoaded(this.#piscina);
    // A call that met it is told; without one Piscina starts the next thread.
    this.#piscina.on('error', (error: unknown) => log.error({ err: error, pool: name }, 'a thread failed without a call'));
  }

  /** Calls the function; memory in `moved` is lost to the caller. Throws `unavailable` where too many wait. */
  async call(input: In, moved: readonly ArrayBuffer[]): Promise<Out> {
    const piscina = this.#piscina;
    if (piscina === null || piscina.queueSize >= this.#options.waiting_max) {
      throw new ApiError('unavailable', {}, { message: 'Too many large requests are being read.', retry_after_s: 1 });
    }
    return piscina.run(input, { transferList: [...moved] }) as Promise<Out>;
  }

  async stop(): Promise<void> {
    this.#piscina = null;
    await this.#end();
  }
}

/** The answer of a call whose memory goes along with it. */
export function withMemory<Out>(value: Out, moved: readonly ArrayBuffer[]): Out {
  const answer = {
    get [Piscina.transferableSymbol]() {
      return moved;
    },
    get [Piscina.valueSymbol]() {
      return value;
    },
  };
  // What Piscina's types do not say: it takes the wrapping off before the answer is sent.
  return Piscina.move(answer as unknown as ArrayBuffer) as Out;
}
