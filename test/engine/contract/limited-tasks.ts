// Section 7 of the contract: how tasks name rate limiters. What those limit is tried in limits*.test.ts.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Limiter, LimiterUsage } from '../../../src/schema/types.gen.ts';
import { until } from '../../helpers/redis.ts';
import { freshPath, inSeconds, type Stage, tasksFor } from '../stage.ts';

const PATH = '/v1/rate-limiters';

let made = 0;

/** A name, or a key, that no other test uses. */
function freshName(): string {
  made += 1;
  return `limited-${made}`;
}

export function limitedTasks({ client, receiver }: Stage): void {
  const { acme } = client;

  const ask = async <T>(status: number, method: string, path: string, body?: unknown): Promise<T> => {
    const reply = await acme.ask(method, path, body === undefined ? {} : { body });
    assert.equal(reply.status, status, `${method} ${path}: ${reply.text}`);
    return reply.json as T;
  };
  const create = (given: object = {}): Promise<Limiter> =>
    ask(201, 'POST', PATH, { name: freshName(), type: 'window', config: { limit: 5, interval: 10 }, ...given });
  const pathsOf = ({ details }: { details: Record<string, unknown> }): string[] =>
    (details['errors'] as { path: string }[]).map(({ path }) => path);

  test('a task that names a limiter that is not there is refused with its place, however it comes', async () => {
    const { name } = await create();
    const [task, wrong] = [{ rate_limiter: name }, { rate_limiter: 'not-there' }].map((more) => tasksFor(receiver.url, 1, more)[0]);
    const { id } = await acme.create({ tasks: tasksFor(receiver.url, 1, { execute_after: inSeconds(3_600) }) });
    for (const [path, body, places] of [
      ['/v1/tasks', wrong, ['/rate_limiter']],
      ['/v1/batches', { tasks: [task, wrong, task, wrong] }, ['/tasks/1/rate_limiter', '/tasks/3/rate_limiter']],
      [`/v1/batches/${id}/tasks`, { tasks: [wrong, task] }, ['/tasks/0/rate_limiter']],
      ['/v1/batches', { tasks: [...tasksFor(receiver.url, 8_000, { rate_limiter: name }), wrong] }, ['/tasks/8000/rate_limiter']],
    ] as const) {
      const refused = await acme.refused(400, 'rate_limiter_not_found', 'POST', path, { body });
      assert.equal(refused.details['rate_limiter'], 'not-there');
      assert.deepEqual(pathsOf(refused), places);
    }
  });

  test('a task that costs more than its limiter holds is refused with its place; other kinds ignore the cost', async () => {
    const points = await create({ type: 'points', config: { capacity: 10, refill_rate: 10, interval: 1 } });
    const window = await create();
    const dear = (limiter: Limiter) => tasksFor(receiver.at(freshPath()), 1, { rate_limiter: limiter.name, points_cost: 11 })[0];
    for (const [path, body, place] of [
      ['/v1/tasks', dear(points), '/points_cost'],
      ['/v1/batches', { tasks: [dear(window), dear(points)] }, '/tasks/1/points_cost'],
    ] as const) {
      assert.deepEqual(pathsOf(await acme.refused(400, 'validation_error', 'POST', path, { body })), [place]);
    }
    const partial = await acme.create({ tasks: [dear(window), dear(points)], options: { atomic: false } });
    assert.deepEqual([partial.stats.total, partial.errors?.map(({ path }) => path)], [1, ['/tasks/1/points_cost']]);
    await acme.ended(partial.id, 'completed');
  });

  test('a limited task shows its limiter, runs, and the same key gets the same answer after the limiter is gone', async () => {
    const { id, name } = await create();
    const [body] = tasksFor(receiver.at(freshPath()), 1, { rate_limiter: name });
    const send = { body, headers: { 'idempotency-key': freshName() } };
    const first = await acme.ask('POST', '/v1/tasks', send);
    assert.equal(first.status, 201, first.text);
    const task = first.json as { id: string; rate_limiter: string };
    assert.equal(task.rate_limiter, name);
    await acme.taskWhen(task.id, ({ status }) => status === 'completed');
    const usage = await ask<LimiterUsage>(200, 'GET', `${PATH}/${id}/usage`);
    assert.deepEqual([usage.granted_last_minute, usage.queued, usage.available], [1, 0, 4]);
    await ask(200, 'DELETE', `${PATH}/${id}`);
    const again = await acme.ask('POST', '/v1/tasks', send);
    assert.deepEqual([again.status, again.text, again.headers['idempotent-replayed']], [201, first.text, 'true']);
  });

  test('a task that is cancelled leaves its limiter: nobody waits for it, and nothing counts it', async () => {
    const { id: limiter_id, name } = await create({
      type: 'points',
      config: { capacity: 10, refill_rate: 1, interval: 3_600 },
      timeouts: { queue_timeout: 3_600 },
    });
    const usage = (): Promise<LimiterUsage> => ask(200, 'GET', `${PATH}/${limiter_id}/usage`);
    const queued = (count: number): Promise<void> => until(async () => (await usage()).queued === count, 5_000, `${count} in the line`);
    const target = receiver.at(freshPath());
    const costs = (cost: number) => acme.createTask({ target, rate_limiter: name, points_cost: cost });
    const first = await costs(8);
    await acme.taskWhen(first.id, ({ status }) => status === 'completed');
    const second = await costs(10);
    const batch = await acme.create({ tasks: tasksFor(target, 9, { rate_limiter: name, points_cost: 3 }) });
    await queued(10);
    const last = await costs(2);
    const { tasks } = await acme.tasks(batch.id);
    // From the middle, at a front, at an end, and what is left of the pieces.
    for (const [place, n] of [4, 0, 8, 2, 6, 1, 3, 5].entries()) {
      await ask(200, 'POST', `/v1/tasks/${tasks[n]?.id}/cancel`);
      await queued(10 - place);
    }
    for (const id of [second.id, tasks[7]?.id]) await ask(200, 'POST', `/v1/tasks/${id}/cancel`);
    await acme.taskWhen(last.id, ({ status }) => status === 'completed');
    assert.equal((await acme.ended(batch.id, 'cancelled')).stats.cancelled, 9);
    const { queued: left, available, days } = await usage();
    assert.deepEqual([left, available, days.at(-1)?.granted, days.at(-1)?.expired], [0, 0, 2, 0]);
  });

  test('tasks are added with their limiters, also where some of them are there already', async () => {
    const { id: limiter_id, name } = await create({ type: 'bucket', config: { limit: 100, interval: 3_600 } });
    const url = receiver.at(freshPath());
    const tasks = Array.from({ length: 3 }, (_, n) => ({ target: url, rate_limiter: name, idempotency_key: `k${n}` }));
    const { id } = await acme.create({ tasks: tasks.slice(0, 1), options: { hold: true } });
    const added = await acme.add(id, { tasks });
    assert.deepEqual([added.stats.total, added.duplicates], [3, 1]);
    await acme.batchWhen(id, ({ stats }) => stats.completed === 3);
    await acme.release(id);
    const usage = await ask<LimiterUsage>(200, 'GET', `${PATH}/${limiter_id}/usage`);
    assert.equal(usage.available, 97);
  });

  test('every attempt takes from the limiter, also that of a task which is tried again by hand', async () => {
    const { id: limiter_id, name } = await create({ type: 'bucket', config: { limit: 100, interval: 3_600 } });
    const target = receiver.at(freshPath(), { status: 500 }, { status: 500 }, { status: 200 });
    const retry = { max_retries: 1, backoff: 'fixed', delay: 0 };
    const { id } = await acme.createTask({ target, rate_limiter: name, points_cost: 50, retry });
    await acme.taskWhen(id, ({ status }) => status === 'failed');
    await ask(200, 'POST', `/v1/tasks/${id}/retry`);
    const task = await acme.taskWhen(id, ({ status }) => status === 'completed');
    assert.equal(task.rate_limiter, name);
    const usage = await ask<LimiterUsage>(200, 'GET', `${PATH}/${limiter_id}/usage`);
    assert.equal(usage.available, 97);
  });
}
