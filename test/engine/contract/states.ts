// The table of states of section 4: every way a batch can go, and what becomes of its tasks.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inList } from '../../helpers/api.ts';
import { freshPath, inSeconds, ONCE, type Stage, tasksFor } from '../stage.ts';

/** Hours: long enough for the first calls, short enough to wait for. */
const SOON = { expiration: 1.5 / 3_600 };

export function states({ client, receiver }: Stage): void {
  const { acme } = client;
  const later = (count: number) => tasksFor(receiver.at(freshPath()), count, { execute_after: inSeconds(3_600) });
  const stats = (completed: number, failed: number, cancelled: number, pending = 0) => ({
    total: completed + failed + cancelled + pending,
    pending,
    completed,
    failed,
    cancelled,
  });
  const held = (count: number) => {
    const path = freshPath();
    return { path, tasks: tasksFor(receiver.at(path, { hold: true }), count, ONCE) };
  };
  const answering = (count: number, status: number) => tasksFor(receiver.at(freshPath(), { status }), count, ONCE);

  test('pending becomes processing when the first task starts, and completed when the last has finished', async () => {
    const { path, tasks } = held(1);
    const { id, status, updated_at } = await acme.create({ tasks: [...tasks, ...answering(2, 200)] });
    assert.equal(status, 'pending');
    await receiver.heard(path, 1);
    const running = await acme.batchWhen(id, (batch) => batch.stats.completed === 2);
    assert.deepEqual([running.status, running.stats, running.completion_rate], ['processing', stats(2, 0, 0, 1), 66.67]);
    assert.ok(running.updated_at >= updated_at);
    assert.ok(await inList(acme, id, '?limit=1000&status=processing'));
    receiver.release(path);
    const ended = await acme.ended(id, 'completed');
    assert.deepEqual([ended.stats, ended.completion_rate], [stats(3, 0, 0), 100]);
    assert.ok(ended.updated_at >= running.updated_at);
    assert.ok(await inList(acme, id, '?limit=1000&status=completed'));
    assert.equal(await inList(acme, id, '?limit=1000&status=processing'), undefined);
  });

  test('with one failed task the end is failed', async () => {
    const { id } = await acme.create({ tasks: [...answering(2, 200), ...answering(1, 500)] });
    const ended = await acme.ended(id, 'failed');
    assert.deepEqual([ended.stats, ended.completion_rate], [stats(2, 1, 0), 66.67]);
    assert.ok(await inList(acme, id, '?limit=1000&status=failed'));
  });

  test('cancel: what does not run is cancelled at once, what runs finishes and counts', async () => {
    const { path, tasks } = held(2);
    const { id } = await acme.create({ tasks: [...tasks, ...later(3)] });
    await receiver.heard(path, 2);
    const changed = await acme.cancel(id);
    assert.deepEqual(changed, { id, status: 'cancelled', stats: stats(0, 0, 3, 2), updated_at: changed.updated_at, completion_rate: 0 });
    const statuses = (await acme.tasks(id)).tasks.map(({ status }) => status);
    assert.deepEqual(statuses, ['processing', 'processing', 'cancelled', 'cancelled', 'cancelled']);
    receiver.release(path);
    const ended = await acme.ended(id, 'cancelled');
    assert.deepEqual([ended.stats, ended.completion_rate], [stats(2, 0, 3), 40]);
    for (const status of ['pending', 'processing', 'completed', 'failed', 'expired']) {
      assert.equal(await inList(acme, id, `?limit=1000&status=${status}`), undefined);
    }
    assert.equal((await inList(acme, id, '?limit=1000'))?.status, 'cancelled');
  });

  test('a pending batch can be cancelled, and again with the same answer', async () => {
    const { id } = await acme.create({ tasks: later(2) });
    const first = await acme.cancel(id);
    assert.deepEqual([first.status, first.stats], ['cancelled', stats(0, 0, 2)]);
    assert.deepEqual(await acme.cancel(id), first);
  });

  test('what runs when its batch is cancelled and fails afterwards is not tried again', async () => {
    const path = freshPath();
    const url = receiver.at(path, { hold: true, status: 500 });
    const { id } = await acme.create({ tasks: [{ target: url, retry: { max_retries: 5, delay: 0 } }] });
    await receiver.heard(path, 1);
    assert.deepEqual((await acme.cancel(id)).stats, stats(0, 0, 0, 1));
    receiver.release(path);
    const ended = await acme.ended(id, 'cancelled');
    assert.deepEqual(ended.stats, stats(0, 1, 0));
    assert.equal((await acme.tasks(id)).tasks[0]?.attempts, 1);
    assert.equal(receiver.to(path).length, 1);
  });

  test('what waits for a retry when its batch is cancelled is not running', async () => {
    const url = receiver.at(freshPath(), { status: 500 });
    const { id } = await acme.create({ tasks: [{ target: url, retry: { max_retries: 5, delay: 600 } }] });
    const [task] = (await acme.tasks(id)).tasks;
    await acme.taskWhen(task?.id ?? '', (one) => one.status === 'queued' && one.attempts === 1);
    assert.deepEqual((await acme.cancel(id)).stats, stats(0, 0, 1));
    assert.equal((await acme.tasks(id)).tasks[0]?.status, 'cancelled');
  });

  test('expiry: what never started fails with batch_expired, what runs finishes and counts', async () => {
    const { path, tasks } = held(1);
    const retrying = { target: receiver.at(freshPath(), { status: 500 }), retry: { max_retries: 5, delay: 600 } };
    const { id } = await acme.create({ tasks: [...tasks, ...answering(1, 200), retrying, ...later(2)], options: SOON });
    await receiver.heard(path, 1);
    const expired = await acme.batchWhen(id, (batch) => batch.status === 'expired');
    assert.deepEqual([expired.stats, expired.completion_rate], [stats(1, 3, 0, 1), 20]);
    assert.ok(await inList(acme, id, '?limit=1000&status=expired'));
    await acme.refused(422, 'batch_state_invalid', 'POST', `/v1/batches/${id}/tasks`, { body: { tasks: later(1) } });
    await acme.refused(422, 'batch_state_invalid', 'POST', `/v1/batches/${id}/cancel`);
    const listed = (await acme.tasks(id)).tasks;
    assert.deepEqual(
      listed.map(({ status }) => status),
      ['processing', 'completed', 'failed', 'failed', 'failed'],
    );
    assert.deepEqual(
      listed.slice(3).map(({ result, attempts }) => [result?.error?.code, attempts]),
      [['batch_expired', 0] as const, ['batch_expired', 0] as const],
    );
    assert.equal(listed[2]?.result?.error?.code, 'batch_expired');
    assert.equal((await acme.tasks(id, '?status=failed')).total, 3);
    receiver.release(path);
    const ended = await acme.ended(id, 'expired');
    assert.deepEqual([ended.stats, ended.completion_rate], [stats(2, 3, 0), 40]);
  });

  test('tasks cancelled one by one end the batch: cancelled where nothing else was', async () => {
    const { id } = await acme.create({ tasks: later(2) });
    const [one, two] = (await acme.tasks(id)).tasks;
    assert.equal((await acme.ask('POST', `/v1/tasks/${one?.id}/cancel`)).status, 200);
    const between = await acme.batch(id);
    assert.deepEqual([between.status, between.stats], ['pending', stats(0, 0, 1, 1)]);
    await acme.ask('POST', `/v1/tasks/${two?.id}/cancel`);
    assert.deepEqual((await acme.ended(id, 'cancelled', 0)).stats, stats(0, 0, 2));
  });

  test('tasks cancelled one by one end the batch: failed or completed where a task was', async () => {
    for (const [answer, status] of [[500, 'failed'] as const, [200, 'completed'] as const]) {
      const { id } = await acme.create({ tasks: [...answering(1, answer), ...later(1)] });
      await acme.batchWhen(id, ({ stats: now }) => now.pending === 1);
      const [, last] = (await acme.tasks(id)).tasks;
      await acme.ask('POST', `/v1/tasks/${last?.id}/cancel`);
      const ended = await acme.ended(id, status, 0);
      assert.deepEqual(ended.stats, answer === 200 ? stats(1, 0, 1) : stats(0, 1, 1));
    }
  });

  test('a held batch stays open until it is released, and then ends at once', async () => {
    const { id, options } = await acme.create({ tasks: answering(2, 200), options: { hold: true } });
    assert.equal(options.hold, true);
    const open = await acme.batchWhen(id, ({ stats: now }) => now.pending === 0);
    assert.deepEqual([open.status, open.stats, open.completion_rate], ['processing', stats(2, 0, 0), 100]);
    assert.equal((await acme.add(id, { tasks: answering(1, 200) })).stats.total, 3);
    await acme.batchWhen(id, ({ stats: now }) => now.completed === 3);
    const released = await acme.release(id);
    assert.deepEqual([released.status, released.stats], ['completed', stats(3, 0, 0)]);
    assert.deepEqual([released.options.hold, (await acme.batch(id)).options.hold], [false, false]);
    assert.equal((await acme.release(id)).status, 'completed');
  });

  test('a held batch expires, and can be cancelled', async () => {
    const { id } = await acme.create({ tasks: answering(1, 200), options: { hold: true, ...SOON } });
    assert.deepEqual((await acme.ended(id, 'expired')).stats, stats(1, 0, 0));
    const other = await acme.create({ tasks: answering(1, 200), options: { hold: true } });
    await acme.batchWhen(other.id, ({ stats: now }) => now.pending === 0);
    assert.deepEqual([(await acme.cancel(other.id)).status, (await acme.batch(other.id)).stats], ['cancelled', stats(1, 0, 0)]);
  });

  test('stats add up in every answer, whatever happens meanwhile', async () => {
    const path = freshPath();
    const url = receiver.at(path, { delay_ms: 2 });
    const { id } = await acme.create({ tasks: tasksFor(url, 400, ONCE), options: { hold: true } });
    const check = ({
      stats: now,
    }: {
      stats: { total: number; pending: number; completed: number; failed: number; cancelled: number };
    }): void => {
      assert.equal(now.pending + now.completed + now.failed + now.cancelled, now.total);
      assert.ok(Math.min(...Object.values(now)) >= 0);
    };
    const look = async (): Promise<void> => {
      for (let looks = 0; looks < 20; looks++) check(await acme.batch(id));
    };
    await Promise.all([
      look(),
      look(),
      ...Array.from({ length: 10 }, async () => check(await acme.add(id, { tasks: tasksFor(url, 20, ONCE) }))),
    ]);
    check(await acme.cancel(id));
    const ended = await acme.ended(id, 'cancelled');
    check(ended);
    assert.equal(ended.stats.total, 600);
    assert.equal(ended.stats.completed, receiver.to(path).length);
  });
}
