// Many tasks for one path of a receiver, and the books of what became of them: the receiver's own log, the task lists
// and the counters must tell the same story.
import assert from 'node:assert/strict';
import type { Client } from '../helpers/api.ts';
import type { Receiver } from '../helpers/receiver.ts';
import { until } from '../helpers/redis.ts';
import { freshPath } from './stage.ts';

export interface Load {
  path: string;
  batches: string[];
  tasks: number;
}

/** Batches spread over the partitions; retries follow at once, so that a lost connection costs no time. */
export async function createLoad(
  client: Client,
  receiver: Receiver,
  batches: number,
  tasks_each: number,
  path = freshPath(),
): Promise<Load> {
  const target = receiver.url + path;
  const retry = { max_retries: 5, backoff: 'fixed', delay: 0.1 };
  const body = { tasks: Array.from({ length: tasks_each }, (_, n) => ({ target, payload: n, retry })) };
  const made = await Promise.all(Array.from({ length: batches }, () => client.create(body)));
  return { path, batches: made.map(({ id }) => id), tasks: batches * tasks_each };
}

/** Tasks that the counters say are completed. */
export async function completed(client: Client, load: Load): Promise<number> {
  const all = await Promise.all(load.batches.map((id) => client.batch(id)));
  return all.reduce((sum, { stats }) => sum + stats.completed, 0);
}

/** Waits until every batch has ended; requests may fail meanwhile, since somebody was killed. */
export async function allEnded(client: Client, load: Load, ms_max: number): Promise<void> {
  const left = new Set(load.batches);
  const look = async (): Promise<boolean> => {
    for (const id of left) {
      const { status, json } = await client.ask('GET', `/v1/batches/${id}`).catch(() => ({ status: 0, json: null }));
      if (status === 200 && (json as { stats: { pending: number } }).stats.pending === 0) left.delete(id);
      else return false;
    }
    return true;
  };
  await until(look, ms_max, 'all batches to end').catch(async (error: unknown) => {
    const stuck = await Promise.all([...left].map((id) => client.batch(id)));
    throw new Error(`${String(error)}; left: ${JSON.stringify(stuck.map(({ id, status, stats }) => ({ id, status, stats })))}`);
  });
}

export interface Books {
  /** Calls beyond the first, by task. */
  repeats: Map<string, number>;
  repeated_calls: number;
}

/** Every task was called, is listed as completed and counted, once. */
export async function audit(client: Client, receiver: Receiver, load: Load): Promise<Books> {
  const listed: Awaited<ReturnType<Client['allTasks']>> = [];
  for (const id of load.batches) listed.push(...(await client.allTasks(id)));
  assert.equal(listed.length, load.tasks);
  assert.deepEqual(count(listed.map(({ status }) => status)), new Map([['completed', load.tasks]]));
  for (const id of load.batches) {
    const { status, stats, completion_rate } = await client.batch(id);
    const each = load.tasks / load.batches.length;
    assert.deepEqual(
      [status, completion_rate, stats],
      ['completed', 100, { total: each, pending: 0, completed: each, failed: 0, cancelled: 0 }],
    );
  }
  const calls = count(receiver.to(load.path).map(({ id }) => id));
  const never = listed.filter(({ id }) => !calls.has(id));
  assert.deepEqual(
    never.map(({ id }) => id),
    [],
    'tasks that were never called',
  );
  assert.equal(calls.size, load.tasks);
  const repeats = new Map([...calls].filter(([, times]) => times > 1).map(([id, times]) => [id, times - 1]));
  return { repeats, repeated_calls: receiver.to(load.path).length - load.tasks };
}

function count(items: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const item of items) counts.set(item, (counts.get(item) ?? 0) + 1);
  return counts;
}
