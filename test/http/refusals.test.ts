import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ApiError } from '../../src/base/errors.ts';
import { newTokenText } from '../../src/store/tokens.ts';
import { ADMIN, BATCH, openDoor, READ, refused, TASK, TASKS } from './door.ts';

const door = await openDoor({
  precheck: {
    addTasks: async ({ params }) => {
      if (params['batch_id'] !== BATCH) throw new ApiError('batch_not_found', { batch_id: params['batch_id'] });
    },
  },
  quota: async (route) =>
    route.quota === 'batch_add'
      ? { granted: false, policy: 'batch-add', limit: 60, window_s: 60, remaining: 0, reset_s: 11.2 }
      : { granted: true, policy: 'batch-create', limit: 100, window_s: 60, remaining: 57, reset_s: 12 },
  max_body_bytes: 1000,
  api: {
    getBatch: () => {
      throw new Error('a bug with a secret in it');
    },
    getTask: () => {
      throw new Error('Connection is closed.');
    },
    cancelBatch: () => {
      throw new ApiError('batch_state_invalid', { batch_id: BATCH, status: 'failed' });
    },
  },
});

describe('refusals', () => {
  it('answers 404 for a path that is nothing', async () => {
    for (const path of [
      '/',
      '/v1',
      '/v1/batches/',
      '//v1/batches',
      '/v1/nothing',
      '/v2/batches',
      `/v1/batches/${BATCH}/x`,
      '/v1/batches/%E0%A4%A',
    ]) {
      assert.deepEqual(refused(await door.ask('GET', path, { token: null })), { status: 404, code: 'not_found', details: {} }, path);
    }
  });

  it('answers 405 with Allow, before it looks at the token', async () => {
    const response = await door.ask('DELETE', '/v1/batches', { token: null });
    assert.equal(refused(response).code, 'method_not_allowed');
    assert.equal(response.status, 405);
    assert.equal(response.headers.allow, 'POST, GET, HEAD, OPTIONS');
    assert.equal((await door.ask('BREW', '/healthz')).status, 405);
  });

  it('answers 401 with WWW-Authenticate, whatever is wrong with the token', async () => {
    for (const authorization of [
      '',
      'Basic YTpi',
      'Bearer',
      `Bearer ${ADMIN} x`,
      `Bearer${ADMIN}`,
      `Bearer ${newTokenText()}`,
      'Bearer slk_junk',
    ]) {
      const response = await door.ask('GET', '/v1/batches/nonsense', { token: null, headers: { authorization } });
      assert.deepEqual(refused(response), { status: 401, code: 'unauthorized', details: {} }, authorization);
      assert.equal(response.headers['www-authenticate'], 'Bearer');
    }
  });

  it('takes the scheme of the token in any case', async () => {
    for (const scheme of ['bearer', 'BEARER', 'BeArEr']) {
      assert.equal((await door.ask('GET', '/v1/batches', { token: null, headers: { authorization: `${scheme} ${ADMIN}` } })).status, 200);
    }
  });

  it('answers 403 before it says that a batch does not exist', async () => {
    const response = await door.ask('POST', '/v1/batches/nonsense/cancel', { token: READ });
    assert.deepEqual(refused(response), { status: 403, code: 'forbidden', details: { scope: 'read', required: 'write' } });
  });

  it('answers 404 for an id that is none, without asking anybody', async () => {
    const before = door.calls.length;
    for (const [path, code] of [
      ['/v1/batches/nonsense', 'batch_not_found'],
      [`/v1/batches/${TASK}`, 'batch_not_found'],
      [`/v1/batches/${BATCH}%2Fx`, 'batch_not_found'],
      ['/v1/tasks/nonsense', 'task_not_found'],
      [`/v1/tasks/${BATCH}`, 'task_not_found'],
      [`/v1/tasks/${TASK}1234567890`, 'task_not_found'],
    ] as const) {
      const answer = refused(await door.ask('GET', path));
      assert.deepEqual([answer.status, answer.code], [404, code], path);
    }
    assert.equal(door.calls.length, before);
  });

  it('says 404 before 429, 429 before 415, 415 before 413, 413 before 400', async () => {
    const unknown = `${BATCH.slice(0, -1)}${BATCH.endsWith('0') ? '1' : '0'}`;
    const huge = 'x'.repeat(2000);
    const not_found = await door.ask('POST', `/v1/batches/${unknown}/tasks`, { body: huge });
    assert.equal(refused(not_found).code, 'batch_not_found');
    const limited = await door.ask('POST', `/v1/batches/${BATCH}/tasks`, { body: huge });
    assert.equal(refused(limited).code, 'rate_limited');
    const no_type = await door.ask('POST', '/v1/batches', { body: huge });
    assert.equal(refused(no_type).code, 'unsupported_media_type');
    const too_large = await door.ask('POST', '/v1/batches', { body: huge, headers: { 'content-type': 'application/json' } });
    assert.deepEqual(refused(too_large), { status: 413, code: 'payload_too_large', details: { max_body_bytes: 1000 } });
    const not_json = await door.ask('POST', '/v1/tasks?x=1', { body: '{', headers: { 'content-type': 'application/json' } });
    assert.equal(refused(not_json).code, 'invalid_json');
  });

  it('leaves it to an endpoint that reads its body itself to say what is wrong with the head', async () => {
    const headers = { 'content-type': 'application/json', 'idempotency-key': 'no spaces' };
    await door.ask('POST', '/v1/batches?x=1', { body: '{', headers });
    const call = door.calls.at(-1)?.call;
    assert.deepEqual([call?.body, call?.raw_body?.toString(), call?.idempotency_key], [null, '{', null]);
    assert.deepEqual(
      call?.head_faults.map(({ path }) => path),
      ['x', 'Idempotency-Key'],
    );
  });

  it('tells the limit on every limited route, and Retry-After in whole seconds when it is used up', async () => {
    const granted = await door.ask('POST', '/v1/batches', { body: TASKS });
    assert.equal(granted.headers['ratelimit-policy'], '"batch-create";q=100;w=60');
    assert.equal(granted.headers['ratelimit'], '"batch-create";r=57;t=12');
    const refusal = await door.ask('POST', `/v1/batches/${BATCH}/tasks`, { body: TASKS });
    assert.deepEqual(refused(refusal).details, { policy: 'batch-add', limit: 60, window_seconds: 60 });
    assert.deepEqual([refusal.status, refusal.headers['retry-after'], refusal.headers['ratelimit']], [429, '12', '"batch-add";r=0;t=12']);
  });

  it('lets an endpoint decide its own limit', async () => {
    const door = await openDoor({
      api: { getTask: () => ({ body: {}, quota: { granted: false, policy: 'own', limit: 3, window_s: 60, remaining: 0, reset_s: 0.2 } }) },
    });
    const response = await door.ask('GET', `/v1/tasks/${TASK}`);
    assert.deepEqual([response.status, response.headers['retry-after'], response.headers['ratelimit']], [429, '1', '"own";r=0;t=1']);
  });

  it('lists all that is wrong with query, headers and body at once', async () => {
    const response = await door.ask('POST', '/v1/tasks?dry=1', {
      body: { target: 7, paylod: 1 },
      headers: { 'idempotency-key': 'with space' },
    });
    const { code, details } = refused(response);
    assert.equal(code, 'validation_error');
    const paths = (details['errors'] as { path: string; message: string }[]).map(({ path }) => path).sort();
    assert.deepEqual(paths, ['/paylod', '/target', 'Idempotency-Key', 'dry']);
  });

  it('refuses a query parameter that it does not know or that is out of range', async () => {
    for (const query of ['limit=0', 'limit=1001', 'limit=ten', 'colour=red', 'limit=1&limit=2', 'status=cancelled']) {
      assert.equal(refused(await door.ask('GET', `/v1/batches?${query}`)).code, 'validation_error', query);
    }
    assert.equal(refused(await door.ask('GET', '/v1/signing-secret?x=1')).code, 'validation_error');
  });

  it('takes no body but {} where an endpoint has none, and what it takes is JSON all the same', async () => {
    const path = `/v1/tasks/${TASK}/cancel`;
    const json = { 'content-type': 'application/json' };
    for (const options of [{}, { body: '' }, { body: '{}', headers: json }, { body: ' { } \n', headers: json }])
      assert.equal((await door.ask('POST', path, options)).status, 200, options.body);
    for (const [body, headers, status, code] of [
      ['x', { 'content-type': 'text/plain' }, 415, 'unsupported_media_type'],
      ['{}', { 'content-type': 'application/x-www-form-urlencoded' }, 415, 'unsupported_media_type'],
      [' '.repeat(1025), json, 413, 'payload_too_large'],
      ['{', json, 400, 'invalid_json'],
      [' ', json, 400, 'invalid_json'],
      ['{"a":1}', json, 400, 'validation_error'],
      ['[]', json, 400, 'validation_error'],
    ] as const) {
      const answer = refused(await door.ask('POST', path, { body, headers }));
      assert.deepEqual([answer.status, answer.code], [status, code], body);
    }
  });

  it('takes a POST without a body for one that is not JSON, whatever it says of its type', async () => {
    for (const headers of [{}, { 'content-type': 'application/json' }]) {
      assert.equal(refused(await door.ask('POST', '/v1/tasks', { headers })).code, 'invalid_json');
    }
  });

  it('refuses other kinds of content, charsets and encodings', async () => {
    const send = async (headers: Record<string, string>) =>
      (await door.ask('POST', '/v1/batches', { body: JSON.stringify(TASKS), headers })).status;
    for (const type of [
      'application/json',
      'Application/JSON',
      'application/json; charset=utf-8',
      'application/json;charset="UTF-8"',
      'application/json; x=y',
    ]) {
      assert.equal(await send({ 'content-type': type }), 201, type);
    }
    for (const type of ['text/plain', 'application/jsonx', 'application/json; charset=latin1', 'application/x-www-form-urlencoded', '']) {
      assert.equal(await send({ 'content-type': type }), 415, type);
    }
    assert.equal(await send({ 'content-type': 'application/json', 'content-encoding': 'gzip' }), 415);
  });

  it('passes on what an endpoint refuses, with its details', async () => {
    const response = await door.ask('POST', `/v1/batches/${BATCH}/cancel`);
    assert.deepEqual(refused(response), { status: 422, code: 'batch_state_invalid', details: { batch_id: BATCH, status: 'failed' } });
  });

  it('answers 503 with Retry-After where the store is out of reach', async () => {
    const response = await door.ask('GET', `/v1/tasks/${TASK}`);
    assert.deepEqual(refused(response), { status: 503, code: 'unavailable', details: {} });
    assert.equal(response.headers['retry-after'], '1');
  });

  it('says nothing about a bug but the id of the request, under which it is logged', async () => {
    const response = await door.ask('GET', `/v1/batches/${BATCH}`);
    const { status, code, details } = refused(response);
    assert.deepEqual([status, code, details], [500, 'internal_error', { request_id: response.headers['x-request-id'] }]);
    assert.ok(!response.text.includes('secret'));
    const line = door.lines.find((one) => one.includes(String(details['request_id'])));
    assert.ok(line?.includes('a bug with a secret in it'));
    assert.ok(!door.lines.some((one) => one.includes(ADMIN)));
  });
});
