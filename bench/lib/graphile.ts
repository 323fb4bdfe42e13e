// graphile-worker beside a PostgreSQL of its own: it exists where PostgreSQL is installed, and its row is left out elsewhere.
import { startPeer } from './peer.ts';
import { Postgres } from './postgres.ts';
import type { Helper } from './process.ts';

export type GraphileQuestion = { type: 'prepare'; count: number; url: string; bytes: number } | { type: 'add' } | { type: 'tidy' };

export class Graphile {
  readonly #postgres: Postgres;
  readonly #producer: Helper;
  readonly #worker: Helper;

  private constructor(postgres: Postgres, producer: Helper, worker: Helper) {
    [this.#postgres, this.#producer, this.#worker] = [postgres, producer, worker];
  }

  /** A sentence where there is no PostgreSQL. */
  static async start(origin: string): Promise<Graphile | string> {
    const postgres = await Postgres.start();
    if (typeof postgres === 'string') return postgres;
    // It makes the tables, so it comes first.
    const producer = await startPeer('graphile', postgres.url, origin, 'producer');
    return new Graphile(postgres, producer, await startPeer('graphile', postgres.url, origin, 'worker'));
  }

  async prepare(count: number, url: string, bytes: number): Promise<void> {
    await this.#producer.ask({ type: 'prepare', count, url, bytes } satisfies GraphileQuestion);
  }

  async add(): Promise<void> {
    await this.#producer.ask({ type: 'add' } satisfies GraphileQuestion);
  }

  /** What autovacuum would do at a time of its own, which is another's turn. */
  async tidy(): Promise<void> {
    await this.#producer.ask({ type: 'tidy' } satisfies GraphileQuestion);
  }

  cpu_s(): { clients: number; workers: number; redis: number } {
    return { clients: this.#producer.cpu_s(), workers: this.#worker.cpu_s(), redis: this.#postgres.cpu_s() };
  }

  async stop(): Promise<void> {
    await Promise.all([this.#producer.stop(), this.#worker.stop()]);
    await this.#postgres.stop();
  }
}
