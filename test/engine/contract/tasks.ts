// Section 3 of the contract, as callers of the API see tasks: in lists, alone, cancelled and run again.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AT_ONCE, freshPath, inSeconds, ONCE, type Stage, tasksFor } from '../stage.ts';

export function tasks({ client, receiver }: Stage): void {
  const { acme } = client;
  const later = () => ({ execute_after: inSeconds(3_600) });

  test('a listed task has the fields of the contract, with completed_at only once completed', async () => {
    const path = freshPath();
    const target = { url: receiver.at(path, { hold: true }), method: 'POST' };
    const { id, created_at } = await acme.create({
      tasks: [
        { target, payload: { a: 1 } },
        { target, payload: 2, ...later() },
      ],
    });
    await receiver.heard(path, 1);
    const [running, queued] = (await acme.tasks(id)).tasks;
    assert.deepEqual(running, { id: running?.id, batch_id: id, status: 'processing', target, created_at, attempts: 1, payload: { a: 1 } });
    assert.deepEqual(queued, { id: queued?.id, batch_id: id, status: 'queued', target, created_at, attempts: 0, payload: 2 });
    receiver.release(path);
    const completed = await acme.taskWhen(running?.id ?? '', ({ status }) => status === 'completed');
    const { completed_at = '', result, ...rest } = completed;
    assert.deepEqual(rest, { ...running, status: 'completed' });
    assert.ok(completed_at >= created_at);
    assert.deepEqual([result?.status_code, result?.error, result?.response_excerpt], [200, null, '{"ok":true}']);
    assert.deepEqual((await acme.tasks(id)).tasks[0], completed);
  });

  test('a task filter is exact, and total counts what it lets through', async () => {
    const path = freshPath();
    const { id } = await acme.create({
      tasks: [
        ...tasksFor(receiver.at(freshPath()), 3, ONCE),
        ...tasksFor(receiver.at(freshPath(), { status: 500 }), 2, ONCE),
        ...tasksFor(receiver.at(path, { hold: true }), 1),
        ...tasksFor(receiver.at(freshPath(), { status: 500 }), 1, { retry: { delay: 600 } }),
        ...tasksFor(receiver.url, 4, later()),
      ],
    });
    await receiver.heard(path, 1);
    const [retrying] = (await acme.tasks(id, '?offset=6&limit=1')).tasks;
    await acme.batchWhen(id, ({ stats }) => stats.completed === 3 && stats.failed === 2);
    await acme.taskWhen(retrying?.id ?? '', ({ status, attempts }) => status === 'queued' && attempts === 1);
    for (const [status, total] of Object.entries({ completed: 3, failed: 2, processing: 1, queued: 5 })) {
      const page = await acme.tasks(id, `?status=${status}`);
      assert.deepEqual([page.total, page.tasks.length], [total, total], status);
      assert.ok(page.tasks.every((task) => task.status === status));
    }
    const page = await acme.tasks(id, '?status=queued&limit=2&offset=1');
    assert.deepEqual([page.total, page.tasks.map(({ payload }) => payload)], [5, [{ n: 0 }, { n: 1 }]]);
    receiver.release(path);
  });

  test('tasks are listed in the order of their creation, page by page', async () => {
    const { id } = await acme.create({ tasks: tasksFor(receiver.url, 50, later()) });
    const seen: unknown[] = [];
    for (let offset = 0; offset < 50; offset += 7)
      seen.push(...(await acme.tasks(id, `?limit=7&offset=${offset}`)).tasks.map(({ payload }) => payload));
    assert.deepEqual(
      seen,
      Array.from({ length: 50 }, (_, n) => ({ n })),
    );
  });

  test('a target is echoed as it was sent, string or object, with its header values masked', async () => {
    const url = `${receiver.url}/Some%20Path?q=1#frag`;
    const targets = [
      url,
      { url },
      { url, method: 'PUT' },
      { method: 'PATCH', url, headers: { 'X-Key': 'secret', Authorization: 'b' } },
      'HTTP://Example.COM:80/a/../b',
    ];
    const { id } = await acme.create({ tasks: targets.map((target) => ({ target, ...later() })) });
    const shown = (await acme.tasks(id)).tasks.map(({ target }) => target);
    const masked = { method: 'PATCH', url, headers: { 'X-Key': '***', Authorization: '***' } };
    assert.deepEqual(shown, [...targets.slice(0, 3), masked, targets[4]]);
    assert.equal(JSON.stringify(shown[3]), JSON.stringify(masked));
  });

  test('payloads come back byte for byte', async () => {
    const odd = [
      '1.0',
      '1e2',
      '-0',
      '12345678901234567890123',
      '0.1000000000000000055511151231257827',
      '{"b":1,"a":2,"b":3}',
      '[ 1 ,\t2,\n{ "x" : [ ] } ]',
      '"\\u00e9\\ud83d\\ude00\\/ é 😀"',
      '"\\ud800"',
      '{}',
      '[]',
      'null',
      'false',
      '""',
      '{"__proto__":null,"":{"":0}}',
    ];
    const tasks = odd.map((payload) => `{"payload": ${payload} ,"target":"${receiver.url}","execute_after":"${inSeconds(3_600)}"}`);
    const created = await acme.ask('POST', '/v1/batches', { raw: `{"tasks":[${tasks.join(',')}]}` });
    const { id } = created.json as { id: string };
    const { text } = await acme.ask('GET', `/v1/batches/${id}/tasks`);
    let from = 0;
    for (const payload of odd) {
      const at = text.indexOf(`"payload":${payload}}`, from);
      assert.ok(at > 0, `${payload} in ${text}`);
      from = at + payload.length;
    }
  });

  test('a task without a payload shows none', async () => {
    const { id } = await acme.create({ tasks: [{ target: receiver.url, ...later() }] });
    assert.equal('payload' in ((await acme.tasks(id)).tasks[0] ?? {}), false);
  });

  test('a payload may have 262,144 bytes', async () => {
    const payload = 'x'.repeat(262_144 - 2);
    const { id } = await acme.create({ tasks: [{ target: receiver.url, payload, ...later() }] });
    assert.equal((await acme.tasks(id)).tasks[0]?.payload, payload);
  });

  test('a single task is created, read and run; its batch_id is null and no list shows it', async () => {
    const path = freshPath();
    const target = { url: receiver.at(path), method: 'PUT' };
    const created = await client.stranger.createTask({ target, payload: { alone: 1 }, ...ONCE });
    assert.deepEqual(created, {
      id: created.id,
      batch_id: null,
      status: 'queued',
      target,
      created_at: created.created_at,
      attempts: 0,
      payload: { alone: 1 },
    });
    const done = await client.stranger.taskWhen(created.id, ({ status }) => status === 'completed');
    assert.deepEqual([done.batch_id, done.attempts, done.result?.status_code, done.created_at], [null, 1, 200, created.created_at]);
    assert.equal((await client.stranger.batches()).total, 0);
    const tray = created.id.replace(/^task_(\w{18})_\d+$/, 'batch_$1');
    await client.stranger.refused(404, 'batch_not_found', 'GET', `/v1/batches/${tray}`);
    await client.stranger.refused(404, 'batch_not_found', 'GET', `/v1/batches/${tray}/tasks`);
    await client.stranger.refused(404, 'batch_not_found', 'POST', `/v1/batches/${tray}/cancel`);
    await client.stranger.refused(404, 'batch_not_found', 'POST', `/v1/batches/${tray}/tasks`, { body: { tasks: [{ target }] } });
  });

  test('two thousand single tasks at once all run, each once', async () => {
    const path = freshPath();
    const target = receiver.at(path);
    const ids: string[] = [];
    const create = async (): Promise<void> => {
      for (let n = 0; n < 50; n++) ids.push((await acme.createTask({ target })).id);
    };
    await Promise.all(Array.from({ length: 40 }, create));
    await receiver.heard(path, 2_000);
    assert.equal(new Set(ids).size, 2_000);
    assert.deepEqual(
      receiver
        .to(path)
        .map(({ id }) => id)
        .toSorted(),
      ids.toSorted(),
    );
  });

  test('a single task takes the fields and the checks of a task in a batch', async () => {
    const task = {
      target: receiver.url,
      timeout: 5,
      retry: { max_retries: 0 },
      idempotency_key: 'k',
      points_cost: 3,
      ...later(),
      valid_until: inSeconds(7_200),
    };
    assert.equal((await acme.createTask(task)).status, 'queued');
    for (const wrong of [{}, { target: 'x' }, { ...task, tasks: [] }, { ...task, valid_until: task.execute_after }, [task], 'x']) {
      await acme.refused(400, 'validation_error', 'POST', '/v1/tasks', { body: wrong });
    }
  });

  test('a task that is queued can be cancelled, again with the same answer; one that runs or has ended cannot', async () => {
    const path = freshPath();
    const waiting = await acme.createTask({ target: receiver.url, ...later() });
    const cancelled = await acme.ask('POST', `/v1/tasks/${waiting.id}/cancel`);
    assert.equal(cancelled.status, 200);
    assert.deepEqual(cancelled.json, { ...waiting, status: 'cancelled' });
    assert.deepEqual((await acme.ask('POST', `/v1/tasks/${waiting.id}/cancel`)).json, cancelled.json);
    const running = await acme.createTask({ target: receiver.at(path, { hold: true }) });
    await receiver.heard(path, 1);
    const refuse = async (id: string, status: string): Promise<void> => {
      const { details } = await acme.refused(422, 'task_state_invalid', 'POST', `/v1/tasks/${id}/cancel`);
      assert.deepEqual(details, { task_id: id, status });
    };
    await refuse(running.id, 'processing');
    receiver.release(path);
    await acme.taskWhen(running.id, ({ status }) => status === 'completed');
    await refuse(running.id, 'completed');
    await acme.refused(422, 'task_state_invalid', 'POST', `/v1/tasks/${running.id}/retry`);
    await acme.refused(422, 'task_state_invalid', 'POST', `/v1/tasks/${waiting.id}/retry`);
  });

  test('a failed single task runs again with its attempts at zero', async () => {
    const path = freshPath();
    const { id } = await acme.createTask({
      target: receiver.at(path, { status: 500 }, { status: 500 }, {}),
      retry: { ...AT_ONCE, max_retries: 1 },
    });
    const failed = await acme.taskWhen(id, ({ status }) => status === 'failed');
    assert.deepEqual([failed.attempts, failed.result?.status_code, failed.result?.error?.code], [2, 500, 'http_status']);
    assert.equal('completed_at' in failed, false);
    const again = await acme.ask('POST', `/v1/tasks/${id}/retry`);
    assert.equal(again.status, 200);
    const done = await acme.taskWhen(id, ({ status }) => status === 'completed');
    assert.equal(done.attempts, 1);
    assert.deepEqual(
      receiver.to(path).map(({ attempt }) => attempt),
      [1, 2, 1],
    );
  });

  test('a task of a batch is read, cancelled and run again by its own id', async () => {
    const failing = receiver.at(freshPath(), { status: 500 }, {});
    const { id } = await acme.create({ tasks: [{ target: failing, ...ONCE }, ...tasksFor(receiver.url, 1, later())] });
    const [first, second] = (await acme.tasks(id)).tasks;
    const failed = await acme.taskWhen(first?.id ?? '', ({ status }) => status === 'failed');
    assert.deepEqual(failed, (await acme.tasks(id)).tasks[0]);
    assert.equal((await acme.ask('POST', `/v1/tasks/${failed.id}/retry`)).status, 200);
    const { stats } = await acme.batchWhen(id, (batch) => batch.stats.completed === 1);
    assert.deepEqual(stats, { total: 2, pending: 1, completed: 1, failed: 0, cancelled: 0 });
    assert.equal((await acme.ask('POST', `/v1/tasks/${second?.id}/cancel`)).status, 200);
    assert.equal((await acme.ended(id, 'completed', 0)).stats.cancelled, 1);
  });
}
