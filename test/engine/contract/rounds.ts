// Section 4 of the contract: failed tasks of a finished batch run again, and a finished batch is deleted.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inList } from '../../helpers/api.ts';
import { until } from '../../helpers/redis.ts';
import { freshPath, inSeconds, ONCE, type Stage, tasksFor } from '../stage.ts';
import { sum } from './operations.ts';

/** Who has nothing to do looks again by himself after this. */
const LOOK_MS = 10_000;

const SOON = { expiration: 1.5 / 3_600 };

export function rounds({ client, engine, receiver, scoped }: Stage): void {
  const { acme, rival } = client;
  /** Fails so often, each task by itself, and succeeds then. */
  const failing = (path: string, times: number) => receiver.at(path, ...Array.from({ length: times }, () => ({ status: 500 })), {});
  const retry = (id: string, headers = {}) => acme.ask('POST', `/v1/batches/${id}/retry`, { headers });

  test('the failed tasks of a failed batch run again, their attempts at zero, and the others do not', async () => {
    const path = freshPath();
    const { id } = await acme.create({
      tasks: [...tasksFor(receiver.at(`${path}/good`), 2), ...tasksFor(failing(`${path}/bad`, 1), 3, ONCE)],
    });
    const { updated_at } = await acme.ended(id, 'failed');
    const { status, json } = await retry(id);
    const change = json as { updated_at: string };
    assert.deepEqual(
      [status, json],
      [
        200,
        {
          id,
          status: 'processing',
          stats: { total: 5, pending: 3, completed: 2, failed: 0, cancelled: 0 },
          updated_at: change.updated_at,
          completion_rate: 40,
        },
      ],
    );
    assert.ok(change.updated_at > updated_at);
    const ended = await acme.ended(id, 'completed');
    assert.deepEqual([ended.stats.completed, ended.completion_rate], [5, 100]);
    assert.deepEqual([receiver.to(`${path}/good`).length, receiver.to(`${path}/bad`).length], [2, 6]);
    assert.deepEqual(
      (await acme.tasks(id)).tasks.map(({ attempts }) => attempts),
      [1, 1, 1, 1, 1],
    );
    assert.ok(await inList(acme, id, '?limit=1000&status=completed'));
    assert.equal(await inList(acme, id, '?limit=1000&status=failed'), undefined);
  });

  test('an expired batch runs again what never started, with an expiry from now on', async () => {
    const path = freshPath();
    const tasks = tasksFor(receiver.at(path), 2, { execute_after: inSeconds(2.6) });
    const { id } = await acme.create({ tasks, options: SOON });
    await acme.ended(id, 'expired');
    const { json } = await retry(id);
    assert.deepEqual((json as { status: string; stats: object }).stats, { total: 2, pending: 2, completed: 0, failed: 0, cancelled: 0 });
    assert.equal((json as { status: string }).status, 'pending');
    assert.deepEqual(
      (await acme.tasks(id)).tasks.map((task) => [task.status, 'result' in task]),
      [
        ['queued', false],
        ['queued', false],
      ],
    );
    await acme.ended(id, 'completed');
  });

  test('a round that is held up expires as the first did', async () => {
    const { id } = await acme.create({ tasks: tasksFor(receiver.url, 2, { execute_after: inSeconds(3_600) }), options: SOON });
    await acme.ended(id, 'expired');
    assert.equal((await retry(id)).status, 200);
    const began_ms = performance.now();
    await acme.batchWhen(id, ({ status }) => status === 'pending');
    const ended = await acme.ended(id, 'expired');
    assert.ok(performance.now() - began_ms < LOOK_MS / 2, 'at its time, and not when somebody happens to look');
    assert.deepEqual(ended.stats.failed, 2);
    assert.deepEqual(
      (await acme.tasks(id)).tasks.map(({ result }) => result?.error?.code),
      ['batch_expired', 'batch_expired'],
    );
  });

  test('one task of a finished batch runs again alone', async () => {
    const path = freshPath();
    const { id } = await acme.create({ tasks: tasksFor(failing(path, 1), 3, ONCE) });
    await acme.ended(id, 'failed');
    const [, task] = (await acme.tasks(id)).tasks;
    const { status, json } = await acme.ask('POST', `/v1/tasks/${task?.id}/retry`);
    assert.equal(status, 200);
    assert.ok(['queued', 'processing', 'completed'].includes((json as { status: string }).status));
    const ended = await acme.batchWhen(id, ({ stats }) => stats.completed === 1);
    assert.deepEqual([ended.status, ended.stats.failed, receiver.to(path).length], ['failed', 2, 4]);
    assert.equal((await retry(id)).status, 200);
    await acme.ended(id, 'completed');
  });

  test('one task of an expired batch runs again at its time, and the others stay expired', async () => {
    const path = freshPath();
    const execute_after = inSeconds(2.6);
    const { id } = await acme.create({ tasks: tasksFor(receiver.at(path), 3, { execute_after }), options: SOON });
    await acme.ended(id, 'expired');
    const { tasks } = await acme.tasks(id);
    assert.equal((await acme.ask('POST', `/v1/tasks/${tasks[1]?.id}/retry`)).status, 200);
    const ended = await acme.ended(id, 'failed');
    assert.ok((receiver.to(path)[0]?.at_ms ?? 0) >= Date.parse(execute_after), 'called before its execute_after');
    assert.deepEqual([ended.stats.completed, ended.stats.failed], [1, 2]);
    assert.deepEqual(
      (await acme.tasks(id)).tasks.map(({ status, result }) => [status, result?.error?.code]),
      [
        ['failed', 'batch_expired'],
        ['completed', undefined],
        ['failed', 'batch_expired'],
      ],
    );
  });

  test('each round has its own on_death and on_finish', async () => {
    const path = freshPath();
    const hooks = Object.fromEntries(
      ['on_death', 'on_finish', 'on_complete', 'on_success'].map((event) => [event, { url: receiver.at(`${path}/${event}`) }]),
    );
    const { id } = await acme.create({ tasks: tasksFor(failing(path, 2), 2, ONCE), notifications: hooks });
    for (const [round, end] of [[1, 'failed'] as const, [2, 'failed'] as const, [3, 'completed'] as const]) {
      if (round > 1) assert.equal((await retry(id)).status, 200);
      await receiver.heard(`${path}/on_finish`, round);
      await receiver.heard(`${path}/on_complete`, round);
      assert.equal((await acme.batch(id)).status, end);
    }
    await receiver.heard(`${path}/on_success`, 1);
    const ids = (event: string) => receiver.to(`${path}/${event}`).map((call) => call.id.slice(id.length));
    assert.deepEqual(ids('on_finish'), ['_on_finish_1', '_on_finish_2', '_on_finish_3']);
    assert.deepEqual(ids('on_death'), ['_on_death_1', '_on_death_2']);
    assert.deepEqual(ids('on_success'), ['_on_success_3']);
  });

  test('a retry with an Idempotency-Key begins one round, however often it is sent', async () => {
    const path = freshPath();
    const { id } = await acme.create({ tasks: tasksFor(failing(path, 5), 2, ONCE) });
    await acme.ended(id, 'failed');
    const key = { 'idempotency-key': `retry ${id}`.replaceAll(' ', '-') };
    const first = await retry(id, key);
    await acme.ended(id, 'failed');
    const again = await retry(id, key);
    assert.deepEqual([again.status, again.text, again.headers['idempotent-replayed']], [200, first.text, 'true']);
    const many = await Promise.all(Array.from({ length: 20 }, () => retry(id, { 'idempotency-key': `many-${id}` })));
    await acme.ended(id, 'failed');
    assert.deepEqual([...new Set(many.map(({ status, text }) => `${status} ${text}`))].length, 1);
    assert.equal(receiver.to(path).length, 6, 'three rounds of two tasks');
    await acme.refused(422, 'idempotency_key_reused', 'POST', `/v1/batches/${id}/cancel`, { headers: key });
  });

  test('a batch that has not failed, or is not over, cannot be retried', async () => {
    const path = freshPath();
    const refuse = async (id: string, status: string): Promise<void> => {
      const { details } = await acme.refused(422, 'batch_state_invalid', 'POST', `/v1/batches/${id}/retry`);
      assert.deepEqual(details, { batch_id: id, status });
    };
    const pending = await acme.create({ tasks: tasksFor(receiver.url, 1, { execute_after: inSeconds(3_600) }) });
    await refuse(pending.id, 'pending');
    await acme.cancel(pending.id);
    await refuse(pending.id, 'cancelled');
    const completed = await acme.create({ tasks: tasksFor(receiver.at(freshPath()), 1) });
    await acme.ended(completed.id, 'completed');
    await refuse(completed.id, 'completed');
    const running = await acme.create({ tasks: tasksFor(receiver.at(path, { hold: true }), 1), options: SOON });
    await acme.batchWhen(running.id, ({ status }) => status === 'expired');
    await refuse(running.id, 'expired');
    receiver.release(path);
    await acme.ended(running.id, 'expired');
    await refuse(running.id, 'expired'); // nothing of it failed
  });

  test('who may not see a batch can neither retry nor delete it', async () => {
    const { id } = await acme.create({ tasks: tasksFor(receiver.at(freshPath(), { status: 500 }), 1, ONCE) });
    await acme.ended(id, 'failed');
    for (const [method, path] of [['POST', `/v1/batches/${id}/retry`] as const, ['DELETE', `/v1/batches/${id}`] as const]) {
      await rival.refused(404, 'batch_not_found', method, path);
      await scoped.read.refused(403, 'forbidden', method, path);
      await acme.refused(400, 'validation_error', method, `${path}?force=true`);
      await acme.refused(400, 'validation_error', method, path, { body: { force: true } });
      await acme.refused(404, 'batch_not_found', method, path.replace(id, 'batch_0'));
    }
  });

  test('a finished batch is deleted: gone from everywhere at once', async () => {
    const { id } = await acme.create({ tasks: tasksFor(receiver.at(freshPath()), 3), labels: { to: 'delete' } });
    await acme.ended(id, 'completed');
    const [task] = (await acme.tasks(id)).tasks;
    const { status, json } = await acme.ask('DELETE', `/v1/batches/${id}`);
    assert.deepEqual([status, json], [200, { deleted: true, id }]);
    for (const [method, path] of [
      ['GET', ''],
      ['DELETE', ''],
      ['GET', '/tasks'],
      ['POST', '/cancel'],
      ['POST', '/release'],
      ['POST', '/retry'],
      ['GET', '/notifications'],
    ] as const) {
      await acme.refused(404, 'batch_not_found', method, `/v1/batches/${id}${path}`);
    }
    await acme.refused(404, 'batch_not_found', 'POST', `/v1/batches/${id}/tasks`, { body: { tasks: tasksFor(receiver.url, 1) } });
    await acme.refused(404, 'task_not_found', 'GET', `/v1/tasks/${task?.id}`);
    await acme.refused(404, 'task_not_found', 'POST', `/v1/tasks/${task?.id}/retry`);
    assert.equal(await inList(acme, id, '?limit=1000'), undefined);
    assert.equal(await inList(acme, id, '?limit=1000&label.to=delete'), undefined);
  });

  test('a batch that is not over is not deleted', async () => {
    const path = freshPath();
    const { id } = await acme.create({ tasks: tasksFor(receiver.at(path, { hold: true }), 1) });
    await receiver.heard(path, 1);
    const refuse = async (status: string): Promise<void> => {
      const { details } = await acme.refused(422, 'batch_state_invalid', 'DELETE', `/v1/batches/${id}`);
      assert.deepEqual(details, { batch_id: id, status });
    };
    await refuse('processing');
    await acme.cancel(id);
    await refuse('cancelled');
    receiver.release(path);
    await acme.ended(id, 'cancelled');
    assert.equal((await acme.ask('DELETE', `/v1/batches/${id}`)).status, 200);
  });

  test('notifications that were not delivered go with the batch, and the log and a metric say how many', async () => {
    const path = freshPath();
    const hook = { url: receiver.at(path, { status: 500 }) };
    const { id } = await acme.create({
      tasks: tasksFor(receiver.at(`${path}/task`), 1),
      notifications: { on_finish: hook, on_complete: hook },
    });
    await receiver.heard(path, 2);
    const before = sum(await (await fetch(`${engine.url}/metrics`)).text(), 'sluice_notifications_dropped_total');
    assert.equal((await acme.ask('DELETE', `/v1/batches/${id}`)).status, 200);
    const after = sum(await (await fetch(`${engine.url}/metrics`)).text(), 'sluice_notifications_dropped_total');
    assert.equal(after - before, 2);
    const said = (): boolean => engine.logs().some((line) => line.includes(id) && line.includes('"notifications":2'));
    await until(() => said(), 5_000, 'the log to say so');
  });
}
