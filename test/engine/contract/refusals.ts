// The error table of section 1, row by row, and the order in which requests are checked.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Client, ErrorBody, Reply } from '../../helpers/api.ts';
import { FORBIDDEN_URL, freshPath, inSeconds, ONCE, type Stage, tasksFor } from '../stage.ts';
import { pathsOf } from './conventions.ts';

const NO_BATCH = `batch_${'0'.repeat(18)}`;
const NO_TASK = `task_${'0'.repeat(18)}_0`;
/** More than the default limit of 16 MiB; announced, never sent. */
const TOO_LARGE = { raw: '{', headers: { 'content-length': '17000000', connection: 'close' } };

export function refusals({ client, nobody, scoped, receiver }: Stage): void {
  const { acme } = client;
  const body = () => ({ tasks: tasksFor(receiver.at(freshPath()), 1, { execute_after: inSeconds(3_600) }) });

  test('every refusal has a code, a message and details', async () => {
    const replies = await Promise.all([
      nobody.ask('GET', '/v1/batches'),
      acme.ask('GET', '/v1/x'),
      acme.ask('PUT', '/v1/batches'),
      acme.ask('GET', `/v1/batches/${NO_BATCH}`),
      acme.ask('POST', '/v1/batches', { raw: 'x' }),
      acme.ask('POST', '/v1/batches', { body: {} }),
    ]);
    for (const { json, text } of replies) {
      const { error, ...others } = json as { error: ErrorBody };
      assert.deepEqual(others, {}, text);
      assert.deepEqual(Object.keys(error), ['code', 'message', 'details'], text);
      assert.ok(error.message.length > 0 && typeof error.details === 'object' && error.details !== null, text);
    }
  });

  test('400 invalid_json: not UTF-8, not JSON, too deep, repeated and __proto__ keys', async () => {
    const deep = (levels: number) => `{"tasks":[{"target":"${receiver.url}","payload":${'['.repeat(levels)}${']'.repeat(levels)}}]}`;
    const bad = [
      '',
      '{',
      '{"tasks":[]} x',
      "{'tasks':[]}",
      '{"tasks":[],}',
      '{"tasks":[NaN]}',
      '\ufeff{"tasks":[]}',
      Buffer.from([...Buffer.from('{"tasks":"'), 0xff, ...Buffer.from('"}')]),
      Buffer.from([...Buffer.from('{"tasks":[{"payload":"'), 0xc3, ...Buffer.from('"}]}')]),
      deep(70),
      '{"description":"lone \\ud800","tasks":[]}',
      '{"tasks":[],"tasks":[]}',
      `{"tasks":[{"target":"${receiver.url}","target":"${receiver.url}"}]}`,
      '{"__proto__":{},"tasks":[]}',
      `{"tasks":[{"target":{"url":"${receiver.url}","__proto__":{}}}]}`,
    ];
    for (const raw of bad) await acme.refused(400, 'invalid_json', 'POST', '/v1/batches', { raw });
    const { id } = await acme.create(body());
    await acme.refused(400, 'invalid_json', 'POST', `/v1/batches/${id}/tasks`, { raw: '[' });
    await acme.refused(400, 'invalid_json', 'POST', '/v1/tasks', { raw: '{"target":1,"target":2}' });
  });

  test('an unknown field is refused as one, whatever it is called', async () => {
    for (const name of ['constructor', 'prototype', 'toString', 'odd']) {
      const reply = await acme.ask('POST', '/v1/tasks', { body: { target: receiver.url, [name]: 1 } });
      assert.deepEqual([reply.status, (reply.json as { error: { code: string } }).error.code], [400, 'validation_error'], name);
    }
  });

  test('a payload may repeat keys and be called __proto__: those levels are not ours', async () => {
    const raw = `{"tasks":[{"target":"${receiver.at(freshPath())}","payload":{"a":1,"a":2,"__proto__":{"b":[]}}}]}`;
    assert.equal((await acme.ask('POST', '/v1/batches', { raw })).status, 201);
  });

  test('400 validation_error names every fault, up to a hundred', async () => {
    const wrong = {
      tasks: [{ target: 'ftp://x' }, { target: { url: 'http://a.example', method: 'FETCH' } }, { tagret: 1 }],
      options: { expiration: 0 },
      x: 1,
    };
    const { details } = await acme.refused(400, 'validation_error', 'POST', '/v1/batches', { body: wrong });
    const paths = pathsOf(details).toSorted();
    assert.deepEqual(paths, [
      '/options/expiration',
      '/tasks/0/target',
      '/tasks/1/target/method',
      '/tasks/2/tagret',
      '/tasks/2/target',
      '/x',
    ]);
    const many = await acme.refused(400, 'validation_error', 'POST', '/v1/batches', { body: { tasks: Array(150).fill({}) } });
    assert.equal(pathsOf(many.details).length, 100);
    // Those that no schema knows too, beside those of the schema.
    const task = { target: { url: 'ftp://x', headers: { Host: 'a' } }, valid_until: '2020-01-01T00:00:00Z', timeout: 0 };
    const further = ['/target/headers/Host', '/target/url', '/timeout', '/valid_until'];
    const both: [string, object, string[]][] = [
      ['tasks', task, further],
      [
        'batches',
        { tasks: [task], description: 1, notifications: { on_finish: { url: 'ftp://y' } } },
        ['/description', '/notifications/on_finish/url', ...further.map((path) => `/tasks/0${path}`)],
      ],
      ['schedules', { cron: 1, timezone: 'UTC', task_template: { target: 'ftp://x' } }, ['/cron', '/task_template/target']],
    ];
    for (const [kind, body, expected] of both) {
      const refused = await acme.refused(400, 'validation_error', 'POST', `/v1/${kind}`, { body });
      assert.deepEqual(pathsOf(refused.details).toSorted(), expected, kind);
    }
  });

  test('400 validation_error: each field keeps its type, its range and its words', async () => {
    const soon = inSeconds(60);
    const at = (task: object): object => ({ tasks: [{ target: receiver.url, ...task }] });
    const cases: [string, unknown][] = [
      ['/tasks', {}],
      ['/tasks', { tasks: [] }],
      ['/tasks', { tasks: {} }],
      ['', []],
      ['', 'text'],
      ['/tasks/0', { tasks: [1] }],
      ['/tasks/0/target', { tasks: [{}] }],
      ['/tasks/0/target', { tasks: [{ target: null }] }],
      ['/tasks/0/target/url', { tasks: [{ target: {} }] }],
      ['/tasks/0/target', { tasks: [{ target: 'http://user:secret@a.example/' }] }],
      ['/tasks/0/target', { tasks: [{ target: '/relative' }] }],
      ['/tasks/0/target', { tasks: [{ target: `http://a.example/${'x'.repeat(2_048)}` }] }],
      ['/tasks/0/target/method', { tasks: [{ target: { url: receiver.url, method: 'post' } }] }],
      ['/tasks/0/target/body', { tasks: [{ target: { url: receiver.url, body: 1 } }] }],
      ['/tasks/0/target/headers/host', { tasks: [{ target: { url: receiver.url, headers: { host: 'x' } } }] }],
      ['/tasks/0/target/headers/Webhook-Id', { tasks: [{ target: { url: receiver.url, headers: { 'Webhook-Id': 'x' } } }] }],
      ['/tasks/0/target/headers/x-sluice-attempt', { tasks: [{ target: { url: receiver.url, headers: { 'x-sluice-attempt': '9' } } }] }],
      ['/tasks/0/target/headers/content-type', { tasks: [{ target: { url: receiver.url, headers: { 'content-type': 'text/plain' } } }] }],
      ['/tasks/0/target/headers/connection', { tasks: [{ target: { url: receiver.url, headers: { connection: 'close' } } }] }],
      ['/tasks/0/target/headers/a', { tasks: [{ target: { url: receiver.url, headers: { a: 1 } } }] }],
      ['/tasks/0/target/headers/a', { tasks: [{ target: { url: receiver.url, headers: { a: 'b\r\nc: d' } } }] }],
      ['/tasks/0/timeout', at({ timeout: 0 })],
      ['/tasks/0/timeout', at({ timeout: 901 })],
      ['/tasks/0/timeout', at({ timeout: '30' })],
      ['/tasks/0/retry/max_retries', at({ retry: { max_retries: 26 } })],
      ['/tasks/0/retry/max_retries', at({ retry: { max_retries: 1.5 } })],
      ['/tasks/0/retry/backoff', at({ retry: { backoff: 'random' } })],
      ['/tasks/0/retry/delay', at({ retry: { delay: -1 } })],
      ['/tasks/0/retry/tries', at({ retry: { tries: 1 } })],
      ['/tasks/0/points_cost', at({ points_cost: 0 })],
      ['/tasks/0/rate_limiter', at({ rate_limiter: 'no_underscores' })],
      ['/tasks/0/idempotency_key', at({ idempotency_key: '' })],
      ['/tasks/0/idempotency_key', at({ idempotency_key: 'x'.repeat(256) })],
      ['/tasks/0/valid_until', at({ valid_until: inSeconds(-1) })],
      ['/tasks/0/valid_until', at({ execute_after: soon, valid_until: soon })],
      ['/tasks/0/payload', at({ payload: 'x'.repeat(262_144) })],
      ['/description', { ...at({}), description: 'x'.repeat(1_025) }],
      ['/description', { ...at({}), description: 'bell \u0007' }],
      ['/options/expiration', { ...at({}), options: { expiration: 0 } }],
      ['/options/expiration', { ...at({}), options: { expiration: 720.5 } }],
      ['/options/atomic', { ...at({}), options: { atomic: 'false' } }],
      ['/options/hold', { ...at({}), options: { hold: 1 } }],
      ['/options/retries', { ...at({}), options: { retries: 1 } }],
      ['/labels/Team', { ...at({}), labels: { Team: 'x' } }],
      ['/labels/team', { ...at({}), labels: { team: '' } }],
      ['/labels/team', { ...at({}), labels: { team: 'x'.repeat(65) } }],
      ['/labels', { ...at({}), labels: Object.fromEntries(Array.from({ length: 17 }, (_, n) => [`l${n}`, 'v'])) }],
      ['/notifications/on_end', { ...at({}), notifications: { on_end: { url: receiver.url } } }],
      ['/notifications/on_finish/method', { ...at({}), notifications: { on_finish: { url: receiver.url, method: 'GET' } } }],
      ['/notifications/on_finish/url', { ...at({}), notifications: { on_finish: { method: 'POST' } } }],
      ['/notifications/on_finish', { ...at({}), notifications: { on_finish: receiver.url } }],
    ];
    for (const [path, wrong] of cases) {
      const { details } = await acme.refused(400, 'validation_error', 'POST', '/v1/batches', { body: wrong });
      assert.deepEqual(pathsOf(details), [path], JSON.stringify(wrong).slice(0, 200));
    }
    const single = await acme.refused(400, 'validation_error', 'POST', '/v1/tasks', { body: { target: receiver.url, timeout: 0 } });
    assert.deepEqual(pathsOf(single.details), ['/timeout']);
  });

  test('an endpoint without a body takes none, or an empty object', async () => {
    const { id } = await acme.create(body());
    const path = `/v1/batches/${id}/release`;
    assert.equal((await acme.ask('POST', path)).status, 200);
    assert.equal((await acme.ask('POST', path, { raw: '{}' })).status, 200);
    await acme.refused(400, 'validation_error', 'POST', path, { body: { now: true } });
  });

  test('400 target_not_allowed, for targets and for notifications', async () => {
    const { details } = await acme.refused(400, 'target_not_allowed', 'POST', '/v1/batches', {
      body: { tasks: [{ target: receiver.url }, { target: { url: FORBIDDEN_URL } }] },
    });
    assert.equal(details['path'], '/tasks/1/target/url');
    await acme.refused(400, 'target_not_allowed', 'POST', '/v1/tasks', { body: { target: FORBIDDEN_URL } });
    await acme.refused(400, 'target_not_allowed', 'POST', '/v1/batches', {
      body: { ...body(), notifications: { on_finish: { url: FORBIDDEN_URL } } },
    });
    const { id } = await acme.create(body());
    await acme.refused(400, 'target_not_allowed', 'POST', `/v1/batches/${id}/tasks`, { body: { tasks: [{ target: FORBIDDEN_URL }] } });
  });

  test('400 rate_limiter_not_found names the limiter', async () => {
    const wrong = { target: receiver.url, rate_limiter: 'no-such-limiter' };
    for (const [path, sent] of [['/v1/batches', { tasks: [wrong] }] as const, ['/v1/tasks', wrong] as const]) {
      const { details } = await acme.refused(400, 'rate_limiter_not_found', 'POST', path, { body: sent });
      assert.equal(details['rate_limiter'], 'no-such-limiter');
    }
  });

  test('401 unauthorized, with WWW-Authenticate', async () => {
    const wrong = [
      null,
      '',
      'Bearer',
      'Bearer ',
      'Basic YTpi',
      'Bearer nonsense',
      `Bearer slk_${'a'.repeat(49)}`,
      'acme-token-of-the-tests',
    ];
    for (const authorization of wrong) {
      const reply = await nobody.ask('GET', '/v1/batches', { headers: { authorization } });
      assert.equal(reply.status, 401, String(authorization));
      assert.equal(reply.headers['www-authenticate'], 'Bearer');
      assert.equal((reply.json as { error: ErrorBody }).error.code, 'unauthorized');
    }
  });

  test('403 forbidden: a token that lacks the scope', async () => {
    await scoped.read.refused(403, 'forbidden', 'POST', '/v1/batches', { body: body() });
    await scoped.read.refused(403, 'forbidden', 'GET', '/v1/signing-secret');
    await scoped.write.refused(403, 'forbidden', 'GET', '/v1/signing-secret');
    await scoped.write.refused(403, 'forbidden', 'POST', '/v1/signing-secret/rotate');
    const { id } = await scoped.write.create(body());
    assert.equal((await scoped.read.batch(id)).id, id);
    assert.equal((await scoped.write.cancel(id)).status, 'cancelled');
    assert.equal((await scoped.admin.batch(id)).status, 'cancelled');
    assert.equal((await scoped.admin.ask('GET', '/v1/signing-secret')).status, 200);
  });

  test('404: no such path, batch or task', async () => {
    await acme.refused(404, 'not_found', 'GET', '/v1/bathces');
    for (const id of [NO_BATCH, 'batch_', 'x', `${NO_BATCH}0`, '..%2f', '%00']) {
      await acme.refused(404, 'batch_not_found', 'GET', `/v1/batches/${id}`);
      await acme.refused(404, 'batch_not_found', 'GET', `/v1/batches/${id}/tasks`);
      await acme.refused(404, 'batch_not_found', 'POST', `/v1/batches/${id}/tasks`, { body: body() });
      await acme.refused(404, 'batch_not_found', 'POST', `/v1/batches/${id}/cancel`);
      await acme.refused(404, 'batch_not_found', 'POST', `/v1/batches/${id}/release`);
    }
    for (const id of [NO_TASK, 'task_', 'x', NO_BATCH]) {
      await acme.refused(404, 'task_not_found', 'GET', `/v1/tasks/${id}`);
      await acme.refused(404, 'task_not_found', 'POST', `/v1/tasks/${id}/cancel`);
      await acme.refused(404, 'task_not_found', 'POST', `/v1/tasks/${id}/retry`);
    }
    const { id } = await acme.create(body());
    await acme.refused(404, 'task_not_found', 'GET', `/v1/tasks/${id.replace('batch_', 'task_')}_1`);
  });

  test('405 method_not_allowed, with Allow', async () => {
    for (const [method, path] of [
      ['DELETE', '/v1/batches'] as const,
      ['PUT', '/v1/tasks'] as const,
      ['GET', `/v1/batches/${NO_BATCH}/cancel`] as const,
    ]) {
      const reply = await acme.ask(method, path);
      assert.equal(reply.status, 405);
      assert.equal((reply.json as { error: ErrorBody }).error.code, 'method_not_allowed');
      assert.match(String(reply.headers.allow), /OPTIONS/);
    }
  });

  test('413 payload_too_large, before the body is read', async () => {
    await acme.refused(413, 'payload_too_large', 'POST', '/v1/batches', TOO_LARGE);
    const chunked = {
      raw: Buffer.alloc(17 * 1024 * 1024, ' '),
      headers: { 'content-length': null, 'transfer-encoding': 'chunked', connection: 'close' },
    };
    await acme.refused(413, 'payload_too_large', 'POST', '/v1/batches', chunked);
  });

  test('415 unsupported_media_type: a body that does not say application/json', async () => {
    for (const type of [null, 'text/plain', 'application/x-www-form-urlencoded', 'application/jsonp', 'application/json; charset=latin1']) {
      await acme.refused(415, 'unsupported_media_type', 'POST', '/v1/batches', { body: body(), headers: { 'content-type': type } });
    }
    const good = await acme.ask('POST', '/v1/batches', { body: body(), headers: { 'content-type': 'Application/JSON; charset="UTF-8"' } });
    assert.equal(good.status, 201);
  });

  test('409 batch_completed and 422 batch_state_invalid, by the state of the batch', async () => {
    const finished = async (status: 200 | 500): Promise<string> => {
      const { id } = await acme.create({ tasks: tasksFor(receiver.at(freshPath(), { status }), 1, ONCE) });
      await acme.ended(id, status === 200 ? 'completed' : 'failed');
      return id;
    };
    const [completed, failed] = await Promise.all([finished(200), finished(500)]);
    const cancelled = (await acme.create(body())).id;
    await acme.cancel(cancelled);
    const added = (id: string, status: number, code: string) =>
      acme.refused(status, code, 'POST', `/v1/batches/${id}/tasks`, { body: body() });
    assert.deepEqual((await added(completed, 409, 'batch_completed')).details, { batch_id: completed, status: 'completed' });
    assert.deepEqual((await added(failed, 422, 'batch_state_invalid')).details, { batch_id: failed, status: 'failed' });
    assert.deepEqual((await added(cancelled, 422, 'batch_state_invalid')).details, { batch_id: cancelled, status: 'cancelled' });
    for (const [id, status] of [[completed, 'completed'] as const, [failed, 'failed'] as const]) {
      const { details } = await acme.refused(422, 'batch_state_invalid', 'POST', `/v1/batches/${id}/cancel`);
      assert.deepEqual(details, { batch_id: id, status });
    }
  });

  test('of several faults the first in the order of the checks is told', async () => {
    const { id } = await acme.create({ tasks: tasksFor(receiver.at(freshPath()), 1) });
    await acme.ended(id, 'completed');
    const bad = { raw: 'x', headers: { 'content-type': 'text/plain' } };
    const big = (type: string) => ({ ...TOO_LARGE, headers: { ...TOO_LARGE.headers, 'content-type': type } });
    const add = `/v1/batches/${id}/tasks`;
    const steps: [Client, number, string, string, string, object][] = [
      [nobody, 404, 'not_found', 'DELETE', '/v1/nothing', bad],
      [nobody, 405, 'method_not_allowed', 'DELETE', add, bad],
      [nobody, 401, 'unauthorized', 'POST', '/v1/batches/x/tasks', bad],
      [scoped.read, 403, 'forbidden', 'POST', '/v1/batches/x/tasks', bad],
      [scoped.read, 403, 'forbidden', 'POST', `/v1/batches/${NO_BATCH}/tasks`, bad],
      [acme, 404, 'batch_not_found', 'POST', `/v1/batches/${NO_BATCH}/tasks`, bad],
      [acme, 404, 'batch_not_found', 'POST', `/v1/batches/${NO_BATCH}/tasks`, big('text/plain')],
      [acme, 404, 'batch_not_found', 'POST', `/v1/batches/${NO_BATCH}/tasks?x=1`, { raw: '{' }],
      [acme, 404, 'batch_not_found', 'GET', `/v1/batches/${NO_BATCH}?x=1`, {}],
      [acme, 404, 'batch_not_found', 'GET', `/v1/batches/${NO_BATCH}/tasks?limit=0`, {}],
      [acme, 404, 'batch_not_found', 'POST', `/v1/batches/${NO_BATCH}/cancel`, { raw: '{"x":1}' }],
      [acme, 404, 'task_not_found', 'POST', `/v1/tasks/${NO_TASK}/retry`, { raw: '{"x":1}' }],
      [acme, 415, 'unsupported_media_type', 'POST', add, big('text/plain')],
      [acme, 413, 'payload_too_large', 'POST', add, big('application/json')],
      [acme, 400, 'invalid_json', 'POST', `${add}?x=1`, { raw: '{' }],
      [acme, 400, 'validation_error', 'POST', add, { body: { tasks: [] } }],
      [acme, 409, 'batch_completed', 'POST', add, { body: body() }],
    ];
    for (const [who, status, code, method, path, options] of steps) {
      const reply: Reply = await who.ask(method, path, options);
      const told = (reply.json as { error?: ErrorBody } | null)?.error?.code;
      assert.deepEqual([reply.status, told], [status, code], `${method} ${path} ${JSON.stringify(options)}`);
    }
  });
}
