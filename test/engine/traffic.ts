// Callers that go on whatever happens, and the books of what they were promised: batches and single tasks are made, read
// and added to over several engines; a refused request with a key is repeated until it is accepted.
import assert from 'node:assert/strict';
import type { Client } from '../helpers/api.ts';
import type { Receiver } from '../helpers/receiver.ts';
import { until } from '../helpers/redis.ts';
import { freshPath } from './stage.ts';

export interface Refusal {
  what: string;
  status: number;
  began_ms: number;
  ended_ms: number;
  text: string;
}

export interface Traffic {
  /** Tasks that were accepted so far. */
  readonly accepted: number;
  readonly refusals: readonly Refusal[];
  /** Answers whose work is on one machine only. */
  readonly degraded: number;
  /** The longest time without an accepted request. */
  gap_ms(): number;
  /** Waits until so many more tasks were accepted. */
  more(tasks: number, ms_max?: number): Promise<void>;
  /** Ends the callers; resolves when their last requests were answered. */
  stop(): Promise<void>;
  /** Every accepted task was called and is counted once, as completed. Returns the calls beyond the first of each. */
  audit(ms_max: number): Promise<{ repeats: number; tasks: number }>;
}

const TASKS_EACH = 10;
/** Callers wait while this much is accepted and not called. */
const BACKLOG_MAX = 400;
const MORE_MS_MAX = 30_000;
/** Callers from this one on read what the ones before it make. */
const READERS_FROM = 4;
const RETRY = { max_retries: 10, backoff: 'fixed', delay: 0.2 };

export function startTraffic(clients: readonly Client[], receiver: Receiver): Traffic {
  const path = freshPath();
  const target = receiver.url + path;
  const task = (n: number): object => ({ target, payload: n, retry: RETRY });
  const tasks = Array.from({ length: TASKS_EACH }, (_, n) => task(n));
  const batches = new Map<string, number>();
  const singles: string[] = [];
  const refusals: Refusal[] = [];
  const accepted_at: number[] = [];
  let accepted = 0;
  let degraded = 0;
  let requests = 0;
  let stopped = false;

  const ask = async (client: Client, method: string, url: string, body?: object, key?: string) => {
    const began_ms = performance.now();
    const headers = key === undefined ? {} : { 'idempotency-key': key };
    const reply = await client.ask(method, url, { ...(body === undefined ? {} : { body }), headers });
    if (reply.status > 201) {
      const what = `${method} ${url.replace(/_\w{6,}/, '_…')}${key === undefined ? '' : ' with a key'}`;
      refusals.push({ what, status: reply.status, began_ms, ended_ms: performance.now(), text: reply.text });
      return null;
    }
    if (reply.headers['x-sluice-durability'] !== undefined) degraded += 1;
    return reply.json as { id: string; stats?: { total: number } };
  };
  /** Until it is accepted; at the end the last refusal stands. */
  const insist = async (client: Client, url: string, body: object): Promise<{ id: string } | null> => {
    const key = `${path}-${requests++}`;
    for (;;) {
      const made = await ask(client, 'POST', url, body, key);
      if (made !== null || stopped) return made;
    }
  };
  const took = (count: number): void => {
    accepted += count;
    accepted_at.push(performance.now());
  };
  const acts: ((client: Client) => Promise<void>)[] = [
    async (client) => {
      const made = await ask(client, 'POST', '/v1/batches', { tasks });
      if (made === null) return;
      batches.set(made.id, TASKS_EACH);
      took(TASKS_EACH);
    },
    async (client) => {
      const made = await insist(client, '/v1/batches', { tasks });
      if (made === null) return;
      batches.set(made.id, TASKS_EACH);
      took(TASKS_EACH);
    },
    async (client) => {
      const made = await ask(client, 'POST', '/v1/tasks', task(0));
      if (made === null) return;
      singles.push(made.id);
      took(1);
    },
    async (client) => {
      const made = await insist(client, '/v1/tasks', task(1));
      if (made === null) return;
      singles.push(made.id);
      took(1);
    },
    async (client) => {
      const all = [...batches.keys()];
      await ask(client, 'GET', `/v1/batches/${all[Math.floor(Math.random() * all.length)]}`);
    },
    async (client) => {
      await ask(client, 'GET', `/v1/tasks/${singles[Math.floor(Math.random() * singles.length)]}`);
    },
    async (client) => {
      const held = await insist(client, '/v1/batches', { tasks: [task(0)], options: { hold: true } });
      if (held === null) return;
      batches.set(held.id, 1);
      took(1);
      if ((await insist(client, `/v1/batches/${held.id}/tasks`, { tasks: [task(1), task(2)] })) !== null) {
        batches.set(held.id, 3);
        took(2);
      }
      for (;;) if ((await ask(client, 'POST', `/v1/batches/${held.id}/release`)) !== null) break;
    },
  ];
  const loop = async (client: Client, act: (client: Client) => Promise<void>): Promise<void> => {
    // Readers need something to read.
    if (acts.indexOf(act) >= READERS_FROM) await until(() => batches.size > 0 && singles.length > 0, MORE_MS_MAX, 'something to read');
    while (!stopped) {
      await act(client);
      await until(() => stopped || accepted - receiver.to(path).length < BACKLOG_MAX, MORE_MS_MAX, 'the backlog to shrink');
    }
  };
  const loops = Promise.all(clients.flatMap((client) => acts.map((act) => loop(client, act))));
  loops.catch(() => {}); // `stop` tells.

  const countsOf = async (id: string): Promise<{ pending: number; completed: number; total: number } | null> => {
    const reply = await clients[0]?.ask('GET', `/v1/batches/${id}`);
    return reply?.status === 200 ? (reply.json as { stats: { pending: number; completed: number; total: number } }).stats : null;
  };

  return {
    get accepted() {
      return accepted;
    },
    get degraded() {
      return degraded;
    },
    refusals,
    gap_ms: () => Math.max(0, ...accepted_at.slice(1).map((at_ms, i) => at_ms - (accepted_at[i] ?? at_ms))),
    async more(count, ms_max = MORE_MS_MAX) {
      const goal = accepted + count;
      await Promise.race([until(() => accepted >= goal, ms_max, `${count} more tasks to be accepted`), loops]);
    },
    async stop() {
      stopped = true;
      await loops;
    },
    async audit(ms_max) {
      const [client] = clients;
      assert.ok(client !== undefined);
      const left = new Set(batches.keys());
      const ended = async (): Promise<boolean> => {
        for (const id of left) {
          if ((await countsOf(id))?.pending !== 0) return false;
          left.delete(id);
        }
        return true;
      };
      await until(ended, ms_max, 'all batches to end').catch(async (error: unknown) => {
        const [id = ''] = left;
        throw new Error(
          `${String(error)}; ${left.size} left, the first ${JSON.stringify((await client.ask('GET', `/v1/batches/${id}`)).json)}`,
        );
      });
      const expected: string[] = [];
      for (const [id, total] of batches) {
        const counts = await countsOf(id);
        assert.deepEqual([counts?.completed, counts?.total], [total, total], id);
        expected.push(...(await client.allTasks(id)).map((one) => one.id));
      }
      for (const id of singles) {
        await client
          .taskWhen(id, ({ status }) => status === 'completed', ms_max)
          .catch((error: unknown) => assert.fail(`${String(error)}; it was called: ${calledText(receiver, id)}`));
        expected.push(id);
      }
      assert.equal(expected.length, accepted);
      // Now that all have ended: single tasks may outlast the batches.
      const called = new Set(receiver.to(path).map(({ id }) => id));
      assert.deepEqual(
        expected.filter((id) => !called.has(id)),
        [],
        'accepted and never called',
      );
      const mine = new Set(expected);
      const calls = receiver.to(path).filter(({ id }) => mine.has(id)).length;
      return { repeats: calls - expected.length, tasks: expected.length };
    },
  };
}

function calledText(receiver: Receiver, id: string): string {
  const calls = receiver.calls.filter((call) => call.id === id);
  return JSON.stringify(calls.map(({ at_ms, attempt, answered, gone }) => ({ at: new Date(at_ms), attempt, answered, gone })));
}

/** Refusals by request and status, for a diagnostic line. */
export function told(refusals: readonly Refusal[]): string {
  const counts = new Map<string, number>();
  for (const { what, status } of refusals) counts.set(`${what} ${status}`, (counts.get(`${what} ${status}`) ?? 0) + 1);
  return [...counts].map(([what, count]) => `${count} × ${what}`).join(', ') || 'none';
}
