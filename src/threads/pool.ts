// Threads that run one long job each: started, watched, started again, stopped.
//
//   waiting ──start──▶ starting ──ready──▶ running ──stop──▶ stopping ──▶ ended
//                          │                  │
//                          └──── ended by ────┴──▶ back-off ──▶ starting (a new life, with a number of its own)
//                                itself
//
// A job is one call of Piscina that lasts as long as the thread works. It talks with its owner over a MessagePort:
// its first message is `{type: 'ready'}`, and `{type: 'stop', deadline_ms}` asks it to return.
import { setFlagsFromString } from 'node:v8';
import { MessageChannel, type MessagePort } from 'node:worker_threads';
import { Piscina } from 'piscina';
import { backoff_ms } from '../base/backoff.ts';
import type { Log } from '../base/log.ts';
import type { Service } from '../base/service.ts';
import { endsOnceLoaded } from './loading.ts';

/** What a job's function gets. `port` carries the messages of both sides. */
export interface JobInput<Data> {
  data: Data;
  port: MessagePort;
}

export interface PoolOptions<Data> {
  name: string;
  /** Module whose default export is the job: `(input: JobInput<Data>) => Promise<void>`. */
  entry: URL;
  threads: number;
  /** Structured-cloneable. `life` grows with every start of a thread of this pool, so names made from it are unique. */
  dataFor(index: number, life: number): Data;
  onMessage(index: number, life: number, message: unknown): void;
  /** A thread is ready; also after a restart. */
  onReady(index: number, life: number): void;
  /** A thread ended by itself; it will be started again. */
  onEnd(index: number, life: number): void;
  log: Log;
}

const RESTART = { min_ms: 100, max_ms: 5_000 };
/** A life this long was a healthy one: the next restart begins with the shortest wait again. */
const HEALTHY_MS = 30_000;
/** For a job that was asked to stop and goes on, beyond its deadline. */
const STOP_GRACE_MS = 5_000;

/** Measured: with 64 instead of the default, the collector takes about a tenth less of a busy callback thread. */
const YOUNG_GENERATION_MB = 64;
/**
 * V8 makes the heap of a thread that has become idle as small as it can, at the price of what the thread has learned: the first 100,000 calls after a
 * rest took a fifth more CPU each. And it collects the whole of a small heap for every few MB that grow old, which holds up whoever has to start then by
 * 10 ms: here at four times of what is in use (docs/decisions/0060). The first is for threads that are started after this (the main thread has it from bin/sluice), the second for all.
 */
const V8_FLAGS: readonly string[] = ['--no-memory-reducer', '--heap-growing-percent=300'];

interface Thread {
  port: MessagePort | null;
  job: Promise<void>;
}

export class ThreadPool<Data> implements Service {
  readonly name: string;
  readonly #options: PoolOptions<Data>;
  readonly #piscina: Piscina;
  readonly #end: () => Promise<void>;
  readonly #threads: Thread[] = [];
  /** Lives that have not said `ready` yet. */
  readonly #unready = new Set<AbortController>();
  #lives = 0;
  #stopping = false;
  #wakeSleepers: (() => void)[] = [];

  constructor(options: PoolOptions<Data>) {
    this.name = options.name;
    this.#options = options;
    for (const flag of V8_FLAGS) setFlagsFromString(flag);
    this.#piscina = new Piscina({
      filename: options.entry.href,
      // For profilers and debuggers, which look at a thread from within.
      workerData: { pool: options.name },
      minThreads: options.threads,
      maxThreads: options.threads,
      concurrentTasksPerWorker: 1,
      idleTimeout: Number.POSITIVE_INFINITY,
      // Most of what a job makes is garbage at once: room for it costs less than collecting it often.
      resourceLimits: { maxYoungGenerationSizeMb: YOUNG_GENERATION_MB },
      // A job never ends while its thread is healthy; nothing waits for a free one.
      maxQueue: options.threads,
    });
    this.#end = endsOnceLoaded(this.#piscina);
    // A thread failed before it took a job, which Piscina tells nobody in particular: the lives that may wait for it try again.
    this.#piscina.on('error', (error: unknown) => {
      options.log.error({ err: error, pool: options.name }, 'a thread failed before it had a job');
      for (const waiting of this.#unready) waiting.abort(error);
    });
  }

  /** Resolves when every thread is ready. Rejects where one fails in its first life. */
  async start(): Promise<void> {
    const ready = Array.from({ length: this.#options.threads }, (_, index) => this.#keep(index));
    await Promise.all(ready);
  }

  post(index: number, message: unknown): void {
    this.#threads[index]?.port?.postMessage(message);
  }

  async stop(deadline_ms: number): Promise<void> {
    if (this.#stopping) return;
    this.#stopping = true;
    for (const wake of this.#wakeSleepers.splice(0)) wake();
    for (const { port } of this.#threads) port?.postMessage({ type: 'stop', deadline_ms });
    const ended = Promise.all(this.#threads.map(({ job }) => job));
    const timer = setTimeout(() => void this.#end(), deadline_ms + STOP_GRACE_MS);
    await ended;
    clearTimeout(timer);
    await this.#end();
  }

  /** Runs thread `index` for ever; resolves when its first life is ready. */
  #keep(index: number): Promise<void> {
    return new Promise<void>((ready, failed) => {
      const thread: Thread = { port: null, job: Promise.resolve() };
      this.#threads[index] = thread;
      thread.job = this.#livesOf(index, thread, ready, failed);
    });
  }

  async #livesOf(index: number, thread: Thread, ready: () => void, failed: (error: unknown) => void): Promise<void> {
    const { log, name } = this.#options;
    let failures = 0;
    let was_ready = false;
    while (!this.#stopping) {
      this.#lives += 1;
      const life = this.#lives;
      const began_ms = performance.now();
      let error: unknown = null;
      try {
        await this.#live(index, life, thread, () => {
          was_ready = true;
          ready();
        });
      } catch (cause) {
        error = cause;
      }
      thread.port?.close();
      thread.port = null;
      if (!was_ready) return failed(error ?? new Error(`A thread of ${name} ended before it was ready.`));
      if (this.#stopping) return;
      this.#options.onEnd(index, life);
      failures = performance.now() - began_ms > HEALTHY_MS ? 1 : failures + 1;
      log.error({ err: error ?? new Error('it returned'), pool: name, index, life }, 'a thread ended by itself and is started again');
      await this.#sleep(backoff_ms(failures, RESTART, Math.random));
    }
  }

  async #live(index: number, life: number, thread: Thread, ready: () => void): Promise<void> {
    const { port1, port2 } = new MessageChannel();
    const unready = new AbortController();
    this.#unready.add(unready);
    thread.port = port1;
    port1.on('message', (message: unknown) => {
      if (isReady(message)) {
        this.#unready.delete(unready);
        ready();
        this.#options.onReady(index, life);
      } else {
        this.#options.onMessage(index, life, message);
      }
    });
    const input: JobInput<Data> = { data: this.#options.dataFor(index, life), port: port2 };
    try {
      await this.#piscina.run(input, { transferList: [port2], signal: unready.signal });
    } finally {
      this.#unready.delete(unready);
    }
  }

  #sleep(ms: number): Promise<void> {
    return new Promise((done) => {
      const timer = setTimeout(done, ms);
      this.#wakeSleepers.push(() => {
        clearTimeout(timer);
        done();
      });
    });
  }
}

function isReady(message: unknown): boolean {
  return typeof message === 'object' && message !== null && 'type' in message && message.type === 'ready';
}
