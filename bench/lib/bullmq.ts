// BullMQ as the table holds Sluice against it: a Redis of its own that keeps an append-only file as Sluice's does, on a unix
// socket, processes that add and processes that work. How many of each is what it does best with, by a short trial.
import { Redis } from 'ioredis';
import { BareRedis } from './bare-redis.ts';
import { startPeer } from './peer.ts';
import type { Helper } from './process.ts';

export interface WorkerSettings {
  socket: string;
  origin: string;
  concurrency: number;
  /** Of ioredis: what is sent in one turn of the loop goes in one write. */
  auto_pipelining: boolean;
  limiter?: { max: number; duration: number };
  /** Is told of the ends of batches. */
  parents: boolean;
}

/** Jobs are built before they are added; `from` numbers them. `due`: first moment, and the milliseconds between two. */
export type ProducerQuestion =
  | { type: 'prepare'; count: number; from: number; url: string; bytes: number; due: Due | null }
  | { type: 'add'; at_once: number }
  | { type: 'flow' }
  | { type: 'one'; url: string; number: number; bytes: number };

export interface Due {
  first_ms: number;
  step_ms: number;
  /** Each job's URL says when it is due. */
  in_url: boolean;
}

export interface BullmqSetup {
  workers: number;
  concurrency: number;
  auto_pipelining?: boolean;
  producers: number;
  /** Chunks of 1,000 that a producer has under way. */
  at_once: number;
  limiter?: { max: number; duration: number };
}

/** What BullMQ is tried with where it only has to be fast. */
export const FAST_SETUPS: readonly [BullmqSetup, ...BullmqSetup[]] = [
  { workers: 1, concurrency: 100, producers: 1, at_once: 2 },
  { workers: 1, concurrency: 100, auto_pipelining: true, producers: 1, at_once: 2 },
  { workers: 1, concurrency: 300, producers: 1, at_once: 2 },
  { workers: 2, concurrency: 100, producers: 1, at_once: 2 },
];

export class Bullmq {
  readonly redis: Redis;
  readonly #at_once: number;
  readonly #server: BareRedis;
  readonly #workers: Helper[] = [];
  readonly #producers: readonly Helper[];

  private constructor(server: BareRedis, producers: Helper[], at_once: number) {
    [this.#server, this.#producers, this.#at_once] = [server, producers, at_once];
    this.redis = new Redis({ path: server.path });
  }

  static async start(origin: string, setup: BullmqSetup): Promise<Bullmq> {
    const server = await BareRedis.start({ append_only: true });
    const adds = Array.from({ length: setup.producers }, () => startPeer('bullmq.producer', server.path));
    const peer = new Bullmq(server, await Promise.all(adds), setup.at_once);
    await peer.startWorkers(origin, setup);
    return peer;
  }

  /** One may start without any, to have jobs wait first. */
  async startWorkers(origin: string, { workers, concurrency, auto_pipelining = false, limiter }: BullmqSetup): Promise<void> {
    const settings = { socket: this.#server.path, origin, concurrency, auto_pipelining, ...(limiter === undefined ? {} : { limiter }) };
    const start = (_: unknown, i: number): Promise<Helper> =>
      startPeer('bullmq.worker', JSON.stringify({ ...settings, parents: i === 0 } satisfies WorkerSettings));
    this.#workers.push(...(await Promise.all(Array.from({ length: workers }, start))));
  }

  /** Builds jobs, dealt to the producers; the bytes of their own JSON. */
  async prepare(count: number, url: string, bytes: number, due: Due | null = null): Promise<number> {
    const each = Math.ceil(count / this.#producers.length);
    const questions = this.#producers.map((_, i) => ({ count: Math.min(each, count - i * each), from: i * each, url, bytes, due }));
    const answers = await Promise.all(
      this.#producers.map((producer, i) => producer.ask<{ json_bytes: number }>({ type: 'prepare', ...questions[i] })),
    );
    return answers.reduce((sum, { json_bytes }) => sum + json_bytes, 0);
  }

  /** Adds what was prepared; the milliseconds that the slowest producer took. */
  async add(): Promise<number> {
    const answers = await Promise.all(this.#producers.map((one) => one.ask<{ ms: number }>({ type: 'add', at_once: this.#at_once })));
    return Math.max(...answers.map(({ ms }) => ms));
  }

  async addOne(url: string, number: number, bytes: number): Promise<void> {
    await this.#producers[0]?.ask({ type: 'one', url, number, bytes } satisfies ProducerQuestion);
  }

  /** Adds what was prepared as children of one parent. */
  async addFlow(): Promise<void> {
    await this.#producers[0]?.ask({ type: 'flow' } satisfies ProducerQuestion);
  }

  /** Resolves when a parent has started, which is when all its children are completed. */
  async flowEnded(): Promise<void> {
    await this.#workers[0]?.ask({});
  }

  /** Jobs that are waiting, at work or delayed. */
  async left(): Promise<number> {
    const [wait, active, delayed] = await Promise.all([
      this.redis.llen('bull:tasks:wait'),
      this.redis.llen('bull:tasks:active'),
      this.redis.zcard('bull:tasks:delayed'),
    ]);
    return wait + active + delayed;
  }

  cpu_s(): { clients: number; workers: number; redis: number } {
    const sum = (helpers: readonly Helper[]): number => helpers.reduce((all, helper) => all + helper.cpu_s(), 0);
    return { clients: sum(this.#producers), workers: sum(this.#workers), redis: this.#server.cpu_s() };
  }

  async stop(): Promise<void> {
    await Promise.all([...this.#workers, ...this.#producers].map((helper) => helper.stop()));
    this.redis.disconnect();
    await this.#server.stop();
  }
}
