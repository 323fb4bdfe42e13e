// A caller that does not give up: batches, single tasks and tasks added, each request under a key of its own, sent again with
// that key until it is accepted. It keeps the books of what it was promised.
import { setTimeout as sleep } from 'node:timers/promises';
import { TOKENS } from '../../test/helpers/engine.ts';
import { until } from '../../test/helpers/redis.ts';
import type { Chance } from '../../test/limiters/chance.ts';

export interface DriverOptions {
  /** Where requests go, in turn; read for each, so that who dies can be replaced. */
  urls: () => readonly string[];
  target: string;
  chance: Chance;
  /** Calls of its own tasks that the receiver has heard; the callers keep at most `BACKLOG_MAX` ahead. */
  called: () => number;
  /** Begins the keys. */
  prefix: string;
}

export interface Accepted {
  id: string;
  tasks: number;
  at_ms: number;
  /** When its request was sent for the first time. */
  sent_ms: number;
}

const CALLERS = 6;
const BACKLOG_MAX = 400;
const BATCH_TASKS_MAX = 60;
const AGAIN_MS = 50;
/** Between two requests of one caller. */
const REST_MS_MAX = 100;
/** Longer than the server takes to say 503 by itself. */
const ANSWER_MS_MAX = 8_000;
const MORE_MS_MAX = 60_000;
/** Say: the same request later. */
const LATER = new Set([429, 503]);
const RETRY = { max_retries: 10, backoff: 'fixed', delay: 0.2 };

export class Driver {
  /** Batches, and single tasks as batches of one, by id. */
  readonly books = new Map<string, Accepted>();
  /** Answers that no caller should have to expect. */
  readonly wrong: string[] = [];
  accepted = 0;
  /** Of those, what the callers themselves sent. */
  #own = 0;
  /** Requests that had to be sent again, and when the latest of them was refused. */
  refused = 0;
  refused_ms = 0;
  /** Of those, by what the caller saw: a status, or `none`. */
  readonly refusals = new Map<string, number>();
  /** 2xx that said their work is on one machine only. */
  degraded = 0;
  /** Batches that have ended may be deleted before their time. */
  early = false;
  readonly #options: DriverOptions;
  #target: string;
  #requests = 0;
  #stopped = false;
  #paused = false;
  /** Tasks that the callers may have sent in all by a time: as many as they had at `from_ms`, and so many a second. */
  #pace: { per_s: number; from_ms: number; own: number } | null = null;
  #rest_ms_max = REST_MS_MAX;
  #loops: Promise<unknown> | null = null;
  #given_up = false;

  constructor(options: DriverOptions) {
    this.#options = options;
    this.#target = options.target;
  }

  /** Waits until so many more tasks were accepted, and begins to send where it has not. */
  async more(tasks: number, ms_max = MORE_MS_MAX): Promise<void> {
    this.#loops ??= Promise.all(Array.from({ length: CALLERS }, () => this.#loop()));
    this.#loops.catch(() => {}); // `stop` tells.
    const goal = this.accepted + tasks;
    await Promise.race([until(() => this.accepted >= goal, ms_max, `${tasks} more tasks to be accepted`), this.#loops]);
  }

  /** Callers finish what they are at and wait, or go on. */
  pause(paused: boolean): void {
    this.#paused = paused;
  }

  /** Where the tasks of the callers go from here on. */
  aim(target: string): void {
    this.#target = target;
  }

  /** So many tasks a second from here on, or as many as they can; they rest no more between requests. */
  pace(per_s: number | null): void {
    this.#rest_ms_max = 0;
    this.#pace = per_s === null ? null : { per_s, from_ms: performance.now(), own: this.#own };
  }

  #ahead(): boolean {
    if (this.#own - this.#options.called() >= BACKLOG_MAX) return true;
    if (this.#pace === null) return false;
    const { per_s, from_ms, own } = this.#pace;
    return this.#own - own >= (per_s * (performance.now() - from_ms)) / 1_000;
  }

  /** Resolves when every request that was begun is accepted. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#loops;
  }

  /** Sends nothing more, and nothing again: whoever broke off leaves no load to those that follow. */
  giveUp(): void {
    this.#stopped = true;
    this.#given_up = true;
  }

  /** A batch of tasks, beside what the callers send; its id, or null where the answer was wrong. */
  async batch(tasks: readonly object[], more: object = {}): Promise<string | null> {
    const sent_ms = Date.now();
    const made = await this.ask('POST', '/v1/batches', { tasks, ...more });
    if (made === null) return null;
    this.promised(made.id, tasks.length, sent_ms);
    return made.id;
  }

  /** One request until it is answered by 2xx; null where the answer is one that repeating does not change, and after `giveUp`. */
  async ask(method: string, path: string, body?: object): Promise<{ id: string } | null> {
    const key = `${this.#options.prefix}-${this.#requests++}`;
    const headers = { authorization: `Bearer ${TOKENS.acme}`, 'content-type': 'application/json', 'idempotency-key': key };
    const init = { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) };
    const first = this.#requests;
    for (let turn = first; ; turn++) {
      if (this.#given_up) return null;
      const urls = this.#options.urls();
      const sent = fetch(urls[turn % urls.length] + path, { ...init, signal: AbortSignal.timeout(ANSWER_MS_MAX) });
      const reply = await sent.then(answerOf, () => null);
      if (reply !== null && reply.status <= 201) {
        if (reply.durability !== null) this.degraded += 1;
        return JSON.parse(reply.text) as { id: string };
      }
      // The try before may have let it end, and one that has ended goes early where memory is short.
      if (this.early && turn > first && reply?.status === 404) return null;
      const again = reply === null || LATER.has(reply.status) || reply.text.includes('"idempotency_conflict"');
      if (!again) {
        this.wrong.push(`${method} ${path.replace(/_\w{6,}/, '_…')} ${reply.status}: ${reply.text.slice(0, 300)}`);
        return null;
      }
      this.#refuse(reply === null ? 'none' : String(reply.status));
      await sleep(AGAIN_MS);
    }
  }

  #refuse(seen: string): void {
    this.refused += 1;
    this.refused_ms = Date.now();
    this.refusals.set(seen, (this.refusals.get(seen) ?? 0) + 1);
  }

  /** A 2xx was read for so many tasks of this batch, or this single task. */
  promised(id: string, tasks: number, sent_ms = Date.now()): void {
    const before = this.books.get(id)?.tasks ?? 0;
    this.books.set(id, { id, tasks: before + tasks, at_ms: Date.now(), sent_ms });
    this.accepted += tasks;
  }

  async #loop(): Promise<void> {
    const { chance } = this.#options;
    while (!this.#stopped) {
      if (this.#paused || this.#ahead()) await sleep(5);
      else await this.#act().then(() => sleep(chance.int(0, this.#rest_ms_max)));
    }
  }

  async #act(): Promise<void> {
    const { chance } = this.#options;
    const kind = chance.int(0, 9);
    if (kind < 7) await this.#ownBatch(chance.int(1, BATCH_TASKS_MAX));
    else if (kind < 9) await this.#single();
    else await this.#grown();
  }

  async #single(): Promise<void> {
    const [task] = this.#tasks(1);
    const made = await this.ask('POST', '/v1/tasks', task);
    if (made === null) return;
    this.promised(made.id, 1);
    this.#own += 1;
  }

  async #ownBatch(tasks: number, more: object = {}): Promise<string | null> {
    const id = await this.batch(this.#tasks(tasks), more);
    if (id !== null) this.#own += tasks;
    return id;
  }

  /** A batch that waits, grows and is let go. */
  async #grown(): Promise<void> {
    const { chance } = this.#options;
    const id = await this.#ownBatch(1, { options: { hold: true } });
    if (id === null) return;
    const tasks = this.#tasks(chance.int(1, 20));
    if ((await this.ask('POST', `/v1/batches/${id}/tasks`, { tasks })) !== null) {
      this.promised(id, tasks.length);
      this.#own += tasks.length;
    }
    await this.ask('POST', `/v1/batches/${id}/release`);
  }

  #tasks(count: number): object[] {
    return Array.from({ length: count }, (_, n) => ({ target: this.#target, payload: n, retry: RETRY }));
  }
}

async function answerOf(response: Response): Promise<{ status: number; text: string; durability: string | null }> {
  return { status: response.status, text: await response.text(), durability: response.headers.get('x-sluice-durability') };
}
