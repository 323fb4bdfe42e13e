// The API as the benches call it, over kept connections.
import { randomUUID } from 'node:crypto';
import { setImmediate, setTimeout } from 'node:timers/promises';
import { Pool } from 'undici';

const CREATES_IN_FLIGHT = 8;
const LOOK_AGAIN_MS = 10;
const COMPLETE_MS_MAX = 120_000;
const SENT_AGAIN_MAX = 10;

interface Batch {
  id: string;
  status: string;
  stats: { total: number; pending: number; completed: number; failed: number };
}

export class Api {
  readonly #pool: Pool;
  readonly #headers: Record<string, string>;
  readonly #patient: boolean;

  /**
   * With `patient` each create has a key, and one that a server on a starved machine could not take is sent again; that costs
   * time, so it is for runs whose time nobody takes.
   */
  constructor(engine: { url: string; token: string }, { patient = false }: { patient?: boolean } = {}) {
    this.#patient = patient;
    this.#pool = new Pool(engine.url, { connections: CREATES_IN_FLIGHT, pipelining: 1 });
    this.#headers = { authorization: `Bearer ${engine.token}`, 'content-type': 'application/json' };
  }

  /** Creates one batch from each body, eight requests in flight; their ids, in that order. */
  async createBatches(bodies: readonly (string | Buffer)[]): Promise<string[]> {
    const ids: string[] = [];
    await eightAtOnce(bodies, async (body, at) => {
      ids[at] = (await this.#call<Batch>('POST', '/v1/batches', body)).id;
    });
    return ids;
  }

  /** Adds tasks to batches that are held, and lets them end. */
  async fillBatches(ids: readonly string[], body: (at: number) => Buffer): Promise<void> {
    await eightAtOnce(ids, async (id, at) => {
      await this.#call('POST', `/v1/batches/${id}/tasks`, body(at));
      await this.#call('POST', `/v1/batches/${id}/release`);
    });
  }

  async release(id: string): Promise<void> {
    await this.#call('POST', `/v1/batches/${id}/release`);
  }

  /** Those that exist no more, or end already, are let be. */
  async releaseAll(ids: readonly string[]): Promise<void> {
    await eightAtOnce(ids, (id) => this.release(id).catch(() => {}));
  }

  async createTask(body: string): Promise<void> {
    await this.#call('POST', '/v1/tasks', body);
  }

  /** Creates `count` schedules of one body, eight requests in flight; their ids. */
  async createSchedules(body: string, count: number): Promise<string[]> {
    const ids: string[] = [];
    let left = count;
    const create = async (): Promise<void> => {
      while (left-- > 0) ids.push((await this.#call<{ id: string }>('POST', '/v1/schedules', body)).id);
    };
    await Promise.all(Array.from({ length: CREATES_IN_FLIGHT }, create));
    return ids;
  }

  async deleteSchedule(id: string): Promise<void> {
    await this.#call('DELETE', `/v1/schedules/${id}`);
  }

  /** Resolves when all of these batches are completed, looking at one at a time, so long after one another. */
  async completed(ids: readonly string[], look_again_ms = LOOK_AGAIN_MS): Promise<number> {
    const give_up_ms = performance.now() + COMPLETE_MS_MAX;
    let tasks = 0;
    for (const id of ids) {
      let batch = await this.#call<Batch>('GET', `/v1/batches/${id}`);
      while (batch.status !== 'completed') {
        if (performance.now() > give_up_ms || batch.stats.failed > 0) throw new Error(`a batch did not complete: ${JSON.stringify(batch)}`);
        // A timer of 0 is one of 1 ms, and that would be measured, too.
        await (look_again_ms === 0 ? setImmediate() : setTimeout(look_again_ms));
        batch = await this.#call<Batch>('GET', `/v1/batches/${id}`);
      }
      tasks += batch.stats.completed;
    }
    return tasks;
  }

  async cancelBatches(ids: readonly string[]): Promise<void> {
    for (const id of ids) await this.#call('POST', `/v1/batches/${id}/cancel`);
  }

  createLimiter(limiter: { name: string; type: string; config: object }): Promise<{ id: string; name: string }> {
    return this.#call('POST', '/v1/rate-limiters', JSON.stringify(limiter));
  }

  /** From now on what this account calls is signed with one secret more. */
  async rotateSecret(): Promise<void> {
    await this.#call('POST', '/v1/signing-secret/rotate');
  }

  async limiter(id: string, what: 'pause' | 'resume'): Promise<void> {
    await this.#call('POST', `/v1/rate-limiters/${id}/${what}`);
  }

  async close(): Promise<void> {
    await this.#pool.close();
  }

  async #call<Answer>(method: 'GET' | 'POST' | 'DELETE', path: string, body: string | Buffer | null = null): Promise<Answer> {
    const headers = this.#patient && method === 'POST' ? { ...this.#headers, 'idempotency-key': randomUUID() } : this.#headers;
    let response = await this.#pool.request({ method, path, headers, body });
    let text = await response.body.text();
    for (let left = SENT_AGAIN_MAX; this.#patient && response.statusCode === 503 && left > 0; left--) {
      await setTimeout(Number(response.headers['retry-after'] ?? 1) * 1_000);
      response = await this.#pool.request({ method, path, headers, body });
      text = await response.body.text();
    }
    if (response.statusCode >= 300) throw new Error(`${method} ${path}: ${response.statusCode} ${text.slice(0, 500)}`);
    return JSON.parse(text) as Answer;
  }
}

async function eightAtOnce<T>(items: readonly T[], work: (item: T, at: number) => Promise<void>): Promise<void> {
  const entries = items.entries();
  const worker = async (): Promise<void> => {
    for (const [at, item] of entries) await work(item, at);
  };
  await Promise.all(Array.from({ length: CREATES_IN_FLIGHT }, worker));
}
