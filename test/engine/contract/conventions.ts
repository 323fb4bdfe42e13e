// Section 1 of the contract: what holds for every endpoint.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ErrorBody } from '../../helpers/api.ts';
import { until } from '../../helpers/redis.ts';
import { freshPath, inSeconds, type Stage, tasksFor } from '../stage.ts';

const TIMESTAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const LATER = 3_600;

export function conventions({ client, engine, receiver }: Stage): void {
  const waiting = (count: number) => ({ tasks: tasksFor(receiver.at(freshPath()), count, { execute_after: inSeconds(LATER) }) });

  test('HEAD answers as GET does, without the body', async () => {
    const { id } = await client.acme.create(waiting(1));
    for (const path of [`/v1/batches/${id}`, '/v1/batches?limit=1', `/v1/batches/${id}/tasks`, '/healthz']) {
      const [get, head] = [await client.acme.ask('GET', path), await client.acme.ask('HEAD', path)];
      assert.equal(head.status, get.status);
      assert.equal(head.text, '');
      assert.equal(head.headers['content-type'], get.headers['content-type']);
    }
    assert.equal((await client.acme.ask('HEAD', '/v1/batches/batch_0')).status, 404);
  });

  test('OPTIONS answers 204 with the methods of the path', async () => {
    const methods = {
      '/v1/batches': 'GET, HEAD, OPTIONS, POST',
      '/v1/batches/x/cancel': 'OPTIONS, POST',
      '/v1/tasks/x': 'GET, HEAD, OPTIONS',
    };
    for (const [path, allow] of Object.entries(methods)) {
      const reply = await client.acme.ask('OPTIONS', path);
      assert.equal(reply.status, 204);
      assert.equal(reply.text, '');
      assert.equal(String(reply.headers.allow).split(', ').sort().join(', '), allow);
    }
  });

  test('every answer carries a request id, the caller’s where it is sane', async () => {
    const given = await client.acme.ask('GET', '/v1/batches?limit=1', { headers: { 'x-request-id': 'my-request.7' } });
    assert.equal(given.headers['x-request-id'], 'my-request.7');
    const made = await client.acme.ask('GET', '/v1/nothing', { headers: { 'x-request-id': 'not sane, at all' } });
    assert.match(String(made.headers['x-request-id']), /^req_\w+$/);
    const again = await client.acme.ask('GET', '/v1/nothing');
    assert.notEqual(again.headers['x-request-id'], made.headers['x-request-id']);
  });

  test('answers are JSON that nobody may keep', async () => {
    for (const path of ['/v1/batches?limit=1', '/v1/nothing']) {
      const { headers } = await client.acme.ask('GET', path);
      assert.equal(headers['content-type'], 'application/json');
      assert.equal(headers['cache-control'], 'no-store');
    }
  });

  test('ids are URL-safe and short, timestamps are UTC with milliseconds', async () => {
    const batch = await client.acme.create(waiting(1));
    const [task] = (await client.acme.tasks(batch.id)).tasks;
    assert.match(batch.id, /^batch_[\w-]{1,58}$/);
    assert.match(task?.id ?? '', /^task_[\w-]{1,59}$/);
    for (const time of [batch.created_at, batch.updated_at, task?.created_at]) assert.match(time ?? '', TIMESTAMP);
    assert.ok(Math.abs(Date.parse(batch.created_at) - Date.now()) < 60_000);
  });

  test('timestamps in are RFC 3339 with an offset, and possible', async () => {
    const make = (execute_after: unknown) => ({ body: { tasks: [{ target: receiver.url, execute_after }] } });
    const day = new Date(Date.now() + 40 * 86_400_000).toISOString().slice(0, 10);
    for (const good of [`${day}T23:59:59Z`, `${day}T23:59:59.123456+05:30`, '2020-01-01T00:00:00-00:00']) {
      assert.equal((await client.acme.ask('POST', '/v1/batches', make(good))).status, 201, good);
    }
    const bad = [
      '2026-02-30T00:00:00Z',
      '2026-12-01T00:00:00',
      '2026-12-01',
      '2026-12-01 00:00:00Z',
      '2026-12-01T24:00:00Z',
      'now',
      '',
      1e12,
      null,
    ];
    for (const one of bad) {
      const { details } = await client.acme.refused(400, 'validation_error', 'POST', '/v1/batches', make(one));
      assert.equal(pathsOf(details)[0], '/tasks/0/execute_after', String(one));
    }
  });

  test('limit and offset are refused outside their range, never clamped', async () => {
    const { id } = await client.acme.create(waiting(3));
    for (const path of ['/v1/batches', `/v1/batches/${id}/tasks`]) {
      for (const query of [
        'limit=0',
        'limit=1001',
        'limit=-1',
        'limit=1.5',
        'limit=abc',
        'limit=',
        'limit=+1',
        'limit=01',
        'limit=1&limit=2',
      ]) {
        const { details } = await client.acme.refused(400, 'validation_error', 'GET', `${path}?${query}`);
        assert.deepEqual(pathsOf(details).slice(0, 1), ['limit'], query);
      }
      for (const query of ['offset=-1', 'offset=100001', 'offset=1e3', 'offset=x']) {
        const { details } = await client.acme.refused(400, 'validation_error', 'GET', `${path}?${query}`);
        assert.deepEqual(pathsOf(details), ['offset'], query);
      }
      for (const query of ['limit=1', 'limit=1000', 'offset=0', 'offset=100000']) {
        assert.equal((await client.acme.ask('GET', `${path}?${query}`)).status, 200, query);
      }
    }
    assert.deepEqual(await client.acme.tasks(id, '?offset=100000'), { total: 3, tasks: [] });
  });

  test('unknown query parameters and filter values are refused', async () => {
    const { id } = await client.acme.create(waiting(1));
    const cases: [string, string][] = [
      ['/v1/batches?statu=pending', 'statu'],
      ['/v1/batches?status=cancelled', 'status'],
      ['/v1/batches?status=Pending', 'status'],
      ['/v1/batches?status=', 'status'],
      [`/v1/batches/${id}?x=1`, 'x'],
      [`/v1/batches/${id}/tasks?status=cancelled`, 'status'],
      [`/v1/batches/${id}/tasks?status=pending`, 'status'],
    ];
    for (const [path, parameter] of cases) {
      const { details } = await client.acme.refused(400, 'validation_error', 'GET', path);
      assert.deepEqual(pathsOf(details), [parameter], path);
    }
    await client.acme.refused(400, 'validation_error', 'POST', `/v1/batches/${id}/cancel?now=1`);
  });

  test('batches are listed newest first, and pages neither repeat nor skip', async () => {
    const made: string[] = [];
    for (let round = 0; round < 6; round++) {
      const several = await Promise.all(Array.from({ length: 4 }, () => client.lists.create(waiting(1))));
      made.push(...several.map(({ id }) => id));
    }
    const whole = await client.lists.batches('?limit=1000');
    assert.equal(whole.total, made.length);
    assert.deepEqual(new Set(whole.batches.map(({ id }) => id)), new Set(made));
    const keys = whole.batches.map(({ created_at, id }) => `${created_at} ${id.slice('batch_'.length)}`);
    assert.deepEqual(keys, keys.toSorted().reverse());
    const paged: string[] = [];
    for (let offset = 0; offset < made.length; offset += 5) {
      const { total, batches } = await client.lists.batches(`?limit=5&offset=${offset}`);
      assert.equal(total, made.length);
      paged.push(...batches.map(({ id }) => id));
    }
    assert.deepEqual(
      paged,
      whole.batches.map(({ id }) => id),
    );
    // `total` counts what matches the filter, not the page.
    await client.lists.cancel(made[3] ?? '');
    const pending = await client.lists.batches('?status=pending&limit=2');
    assert.deepEqual([pending.total, pending.batches.length], [made.length - 1, 2]);
    assert.equal((await client.lists.batches('?limit=1')).total, made.length);
  });

  test('an Idempotency-Key is 1 to 255 visible ASCII characters; one that is empty is no protection, and is refused', async () => {
    const { acme } = client;
    const body = { tasks: tasksFor(receiver.at(freshPath()), 1) };
    for (const key of ['', ' ', 'a b', 'k'.repeat(256), 'k\u00e9k']) {
      await acme.refused(400, 'validation_error', 'POST', '/v1/batches', { body, headers: { 'idempotency-key': key } });
    }
    for (const key of ['k', freshPath().padEnd(255, '~')]) {
      assert.equal((await acme.ask('POST', '/v1/batches', { body, headers: { 'idempotency-key': key } })).status, 201);
    }
    assert.equal((await acme.ask('GET', '/v1/batches', { headers: { 'idempotency-key': '' } })).status, 200);
  });

  test('a refused request leaves its Idempotency-Key free, and is refused again', async () => {
    const { acme } = client;
    const { id } = await acme.create({ tasks: tasksFor(receiver.at(freshPath()), 1) });
    await acme.ended(id, 'completed');
    const [task] = (await acme.tasks(id)).tasks;
    const body = { tasks: tasksFor(receiver.at(freshPath()), 1, { execute_after: inSeconds(3_600) }) };
    const refused: [status: number, code: string, path: string, options?: { body: unknown }][] = [
      [422, 'task_state_invalid', `/v1/tasks/${task?.id}/retry`],
      [422, 'task_state_invalid', `/v1/tasks/${task?.id}/cancel`],
      [422, 'batch_state_invalid', `/v1/batches/${id}/cancel`],
      [422, 'batch_state_invalid', `/v1/batches/${id}/retry`],
      [409, 'batch_completed', `/v1/batches/${id}/tasks`, { body }],
      [404, 'notification_not_found', `/v1/batches/${id}/notifications/none/redeliver`],
    ];
    for (const [n, [status, code, path, options]] of refused.entries()) {
      const headers = { 'idempotency-key': `refused-${id}-${n}` };
      for (let tries = 0; tries < 3; tries++) await acme.refused(status, code, 'POST', path, { ...options, headers });
      assert.equal((await acme.ask('POST', '/v1/batches', { body, headers })).status, 201, path);
      // What is not there stays so: that comes before.
      if (status === 404) await acme.refused(404, code, 'POST', path, { headers });
      else await acme.refused(422, 'idempotency_key_reused', 'POST', path, { ...options, headers });
    }
  });

  test('of a key that is another request’s is told last: after a resource that is not there, and after a body that is at fault', async () => {
    const { acme, rival } = client;
    const { id } = await acme.create({ tasks: tasksFor(receiver.at(freshPath()), 1), options: { hold: true } });
    const headers = { 'idempotency-key': `last-${id}` };
    assert.equal((await acme.ask('POST', `/v1/batches/${id}/cancel`, { headers })).status, 200);
    const core = '0'.repeat(18);
    const missing: [code: string, path: string][] = [
      ...['cancel', 'release', 'retry', 'notifications/none/redeliver'].map((what): [string, string] => [
        'batch_not_found',
        `/v1/batches/batch_${core}/${what}`,
      ]),
      ...['cancel', 'retry'].map((what): [string, string] => ['task_not_found', `/v1/tasks/task_${core}_0/${what}`]),
      ...['resume', 'reset'].map((what): [string, string] => ['rate_limiter_not_found', `/v1/rate-limiters/rl_${core}/${what}`]),
      ['schedule_not_found', `/v1/schedules/sched_${core}/trigger`],
      ['notification_not_found', `/v1/batches/${id}/notifications/none/redeliver`],
    ];
    for (const [code, path] of missing) await acme.refused(404, code, 'POST', path, { headers });
    for (const path of ['/v1/batches', `/v1/batches/${id}/tasks`, '/v1/tasks', '/v1/schedules', '/v1/rate-limiters']) {
      await acme.refused(400, 'validation_error', 'POST', path, { body: { odd: 1 }, headers });
    }
    const limiter = await acme.ask('POST', '/v1/rate-limiters', {
      body: { name: `last-${id.slice(-8)}`, type: 'concurrent', config: { limit: 1 } },
    });
    const target = receiver.at(freshPath());
    const past = inSeconds(-60);
    const sound: [code: string, path: string, body: object][] = [
      ['validation_error', '/v1/tasks', { target, valid_until: past }],
      ['rate_limiter_not_found', '/v1/tasks', { target, rate_limiter: 'none' }],
      ['validation_error', '/v1/batches', { tasks: [{ target, valid_until: past }] }],
      ['invalid_cron', '/v1/schedules', { cron: 'x x x x x', timezone: 'UTC', task_template: { target } }],
      [
        'validation_error',
        '/v1/schedules',
        { cron: '* * * * *', timezone: 'UTC', task_template: { target }, start_at: inSeconds(60), end_at: inSeconds(30) },
      ],
      ['validation_error', `/v1/rate-limiters/${(limiter.json as { id: string }).id}/pause`, { until: past }],
    ];
    for (const [code, path, body] of sound) await acme.refused(400, code, 'POST', path, { body, headers });
    await acme.refused(422, 'idempotency_key_reused', 'POST', `/v1/batches/${id}/release`, { headers });
    await acme.refused(422, 'idempotency_key_reused', 'POST', '/v1/tasks', { body: { target }, headers });
    const others = { 'idempotency-key': `last-${id}-2` };
    assert.equal(
      (await rival.ask('POST', '/v1/batches', { body: { tasks: tasksFor(receiver.at(freshPath()), 1) }, headers: others })).status,
      201,
    );
    await rival.refused(404, 'batch_not_found', 'POST', `/v1/batches/${id}/release`, { headers: others });
  });

  test('what is wrong with the head of a request is listed beside what is wrong with its body', async () => {
    const { acme } = client;
    const { id } = await acme.create({ tasks: tasksFor(receiver.at(freshPath()), 1), options: { hold: true } });
    for (const path of ['/v1/batches', `/v1/batches/${id}/tasks`, '/v1/tasks']) {
      const tasks = path === '/v1/tasks' ? { target: 'x' } : { tasks: [{ target: 'x' }] };
      const { details } = await acme.refused(400, 'validation_error', 'POST', `${path}?x=1`, {
        body: { ...tasks, zz: 1 },
        headers: { 'idempotency-key': 'a b' },
      });
      const paths = (details['errors'] as { path: string }[]).map((one) => one.path).sort();
      assert.deepEqual(
        paths,
        path === '/v1/tasks' ? ['/target', '/zz', 'Idempotency-Key', 'x'] : ['/tasks/0/target', '/zz', 'Idempotency-Key', 'x'],
      );
    }
  });

  test('a key of a change that was made is no other request’s', async () => {
    const { acme } = client;
    const { id } = await acme.create({ tasks: tasksFor(receiver.at(freshPath()), 1), options: { hold: true } });
    const failed = await acme.create({ tasks: tasksFor(receiver.at(freshPath(), { status: 400 }), 1) });
    await acme.ended(failed.id, 'failed');
    const tasks = tasksFor(receiver.at(freshPath()), 1, { execute_after: inSeconds(3_600) });
    const task = { target: { url: receiver.at(freshPath()), method: 'POST' } };
    const schedule = { cron: '0 0 1 1 *', timezone: 'UTC', task_template: task };
    const made = await acme.ask('POST', '/v1/schedules', { body: schedule });
    assert.equal(made.status, 201, made.text);
    const changes: [path: string, body?: object][] = [
      [`/v1/batches/${id}/tasks`, { tasks }],
      [`/v1/batches/${failed.id}/retry`],
      [`/v1/schedules/${(made.json as { id: string }).id}/trigger`],
    ];
    const others: [path: string, body: object][] = [
      ['/v1/tasks', task],
      ['/v1/batches', { tasks }],
      ['/v1/schedules', schedule],
    ];
    for (const [n, [path, body]] of changes.entries()) {
      const headers = { 'idempotency-key': `changed-${id}-${n}` };
      const done = await acme.ask('POST', path, { body, headers });
      assert.ok(done.status < 300, `${path}: ${done.text}`);
      for (const [other, content] of others) {
        await acme.refused(422, 'idempotency_key_reused', 'POST', other, { body: content, headers });
      }
    }
  });

  test('a repeated request gets its first answer also when a time in it has passed since', async () => {
    const { acme } = client;
    const { id } = await acme.create({ tasks: tasksFor(receiver.at(freshPath()), 1), options: { hold: true } });
    const limiter = await acme.ask('POST', '/v1/rate-limiters', {
      body: { name: `passed-${id.slice(-8)}`, type: 'concurrent', config: { limit: 1 } },
    });
    const time = inSeconds(1);
    const tasks = tasksFor(receiver.at(freshPath()), 1, { valid_until: time });
    const requests: [path: string, body: object | undefined][] = [
      ['/v1/tasks', tasks[0]],
      ['/v1/batches', { tasks }],
      [`/v1/batches/${id}/tasks`, { tasks }],
      [`/v1/rate-limiters/${(limiter.json as { id: string }).id}/pause`, { until: time }],
    ];
    const ask = () =>
      Promise.all(requests.map(([path, body], n) => acme.ask('POST', path, { body, headers: { 'idempotency-key': `passed-${id}-${n}` } })));
    const first = await ask();
    await until(() => inSeconds(0) > time, 5_000, 'the time to pass');
    for (const [n, { status, text, headers }] of (await ask()).entries()) {
      assert.deepEqual([status, text, headers['idempotent-replayed']], [first[n]?.status, first[n]?.text, 'true'], requests[n]?.[0]);
    }
    await acme.refused(400, 'validation_error', 'POST', requests[2]?.[0] ?? '', { body: { tasks } });
    await acme.refused(400, 'validation_error', 'POST', requests[3]?.[0] ?? '', { body: { until: time } });
  });

  test('there is no other document and no other path', async () => {
    for (const path of ['/v1', '/v1/', '/v2/batches', '/v1/batches/', '/v1/Batches', '/v1/batches//tasks']) {
      const reply = await client.acme.ask('GET', path);
      assert.equal(reply.status, 404, path);
      assert.equal((reply.json as { error: ErrorBody }).error.code, 'not_found');
    }
    assert.ok(engine.url.startsWith('http://127.0.0.1:'));
  });
}

/** The paths that a refusal names. */
export function pathsOf(details: Record<string, unknown>): string[] {
  return (details['errors'] as { path: string; message: string }[]).map(({ path, message }) => {
    assert.ok(message.length > 0);
    return path;
  });
}
