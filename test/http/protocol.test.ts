import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { HANDLERS } from '../../src/api/call.ts';
import { newCore } from '../../src/base/id.ts';
import { ADMIN, BATCH, gate, head, openDoor, READ, refused, TASK, TASKS } from './door.ts';

interface Document {
  openapi: string;
  paths: Record<string, Record<string, { operationId: string }>>;
}

const door = await openDoor({
  metrics_token: 'metrics-token',
  api: {
    getBatch: ({ params }) => ({ body: { id: params['batch_id'], text: 'häppy' } }),
    createBatch: ({ raw_body }) => ({ body: { seen: raw_body?.toString() }, headers: { 'Idempotent-Replayed': 'true' } }),
    listBatches: ({ query }) => ({ body: { query } }),
    getTask: () => ({ status: 200, body: Buffer.from('{"ready":1.0}') }),
  },
});

describe('the front door', () => {
  it('hands a call to its endpoint and sends what that returns', async () => {
    const response = await door.ask('POST', '/v1/batches', {
      body: '{"tasks":[{"target":"https://example.com","payload":{"n": 1.0}}]}',
      headers: { 'content-type': 'application/json', 'idempotency-key': 'key-1' },
    });
    assert.equal(response.status, 201);
    assert.deepEqual(response.json, { seen: '{"tasks":[{"target":"https://example.com","payload":{"n": 1.0}}]}' });
    assert.equal(response.headers['content-type'], 'application/json');
    assert.equal(response.headers['cache-control'], 'no-store');
    assert.equal(response.headers['idempotent-replayed'], 'true');
    const call = door.calls.at(-1)?.call;
    assert.deepEqual([call?.account, call?.account_id.length, call?.idempotency_key], ['acme', 10, 'key-1']);
    assert.equal(call?.raw_body?.toString(), '{"tasks":[{"target":"https://example.com","payload":{"n": 1.0}}]}');
    const ready = await door.ask('GET', `/v1/tasks/${TASK}`, { token: READ });
    assert.equal(ready.text, '{"ready":1.0}');
  });

  it('fills in the defaults of a query, and decodes it', async () => {
    const response = await door.ask('GET', '/v1/batches?status=pending&label.team=a%20b');
    assert.deepEqual(response.json, { query: { limit: 100, offset: 0, status: 'pending', 'label.team': 'a b' } });
  });

  it('decodes the path once', async () => {
    const response = await door.ask('GET', `/v1/batches/%62${BATCH.slice(1)}`);
    assert.equal((response.json as { id: string }).id, BATCH);
    assert.equal(refused(await door.ask('GET', `/v1/batches/%2562${BATCH.slice(1)}`)).code, 'batch_not_found');
  });

  it('answers HEAD as GET, without the body, and goes on with the connection', async () => {
    const get = await door.ask('GET', `/v1/batches/${BATCH}`);
    const only_head = await door.ask('HEAD', `/v1/batches/${BATCH}`);
    assert.equal(only_head.status, 200);
    assert.equal(only_head.text, '');
    assert.equal(only_head.headers['content-length'], String(Buffer.byteLength(get.text)));
    const missing = await door.ask('HEAD', '/v1/batches/nonsense');
    assert.deepEqual([missing.status, missing.text], [404, '']);
    const connection = await door.dial();
    connection.socket.write(head(`HEAD /v1/batches/${BATCH}`));
    await connection.until(/\r\n\r\n$/);
    connection.socket.write(head('GET /healthz'));
    assert.match(await connection.until(/"ok"\}$/), /Content-Length: 15\r\n\r\n\{"status":"ok"\}$/i);
  });

  it('answers OPTIONS with 204 and Allow, without a token', async () => {
    const response = await door.ask('OPTIONS', `/v1/batches/${BATCH}/tasks`, { token: null });
    assert.deepEqual([response.status, response.headers.allow, response.text], [204, 'POST, GET, HEAD, OPTIONS', '']);
    assert.equal(response.headers['content-length'], undefined);
  });

  it("names every answer by the caller's request id where it is sane, else by its own", async () => {
    const sane = await door.ask('GET', '/nothing', { headers: { 'x-request-id': 'a.B_~-9' } });
    assert.equal(sane.headers['x-request-id'], 'a.B_~-9');
    const seen = new Set<unknown>();
    for (const id of ['', 'a b', 'ä', 'x'.repeat(129), '"']) {
      const response = await door.ask('GET', '/healthz', { headers: { 'x-request-id': id } });
      assert.match(String(response.headers['x-request-id']), /^req_[0-9A-Za-z]{14}$/, id);
      seen.add(response.headers['x-request-id']);
    }
    assert.equal(seen.size, 5);
  });

  it('takes no body for an empty one where a body may be left out, and any other as ever', async () => {
    const path = `/v1/rate-limiters/rl_${newCore(3, 1_700_000_000_000)}/pause`;
    const seen: unknown[] = [];
    for (const options of [{}, { body: { until: '2030-01-01T00:00:00Z' } }]) {
      assert.equal((await door.ask('POST', path, options)).status, 200);
      const last = door.calls.at(-1);
      seen.push([last?.name, last?.call.body]);
    }
    assert.deepEqual(seen, [
      ['pauseLimiter', {}],
      ['pauseLimiter', { until: '2030-01-01T00:00:00Z' }],
    ]);
    const json = { 'content-type': 'application/json' };
    for (const [body, headers, status] of [
      ['{}', { 'content-type': 'text/plain' }, 415],
      ['[]', json, 400],
      [' ', json, 400],
    ] as const) {
      assert.equal(refused(await door.ask('POST', path, { body, headers })).status, status, body);
    }
  });

  it('shows health, readiness and the OpenAPI document to anybody, metrics to those with their token', async () => {
    assert.deepEqual((await door.ask('GET', '/healthz', { token: null })).json, { status: 'ok' });
    assert.deepEqual((await door.ask('GET', '/readyz', { token: null })).json, { status: 'ok', checks: { redis: 'ok' } });
    const document = (await door.ask('GET', '/openapi.json', { token: null })).json as Document;
    assert.equal(document.openapi, '3.1.0');
    const operations = Object.values(document.paths).flatMap((methods) => Object.values(methods).map(({ operationId }) => operationId));
    assert.deepEqual(operations.sort(), [...HANDLERS].sort());
    assert.equal((await door.ask('GET', '/metrics', { token: null })).status, 401);
    assert.equal((await door.ask('GET', '/metrics', { token: ADMIN })).status, 401);
    const metrics = await door.ask('GET', '/metrics', { token: 'metrics-token' });
    assert.deepEqual([metrics.text, metrics.headers['content-type']], ['# metrics\n', 'text/plain; version=0.0.4; charset=utf-8']);
  });

  it('is not ready, with reasons, where something it needs is not', async () => {
    const door = await openDoor({ ops: { ready: async () => ({ ok: false, checks: { redis: 'down' } }), metrics: async () => '' } });
    const response = await door.ask('GET', '/readyz', { token: null });
    assert.deepEqual(refused(response), { status: 503, code: 'unavailable', details: { checks: { redis: 'down' } } });
  });

  it('answers requests that were sent in one go, in their order', async () => {
    const connection = await door.dial();
    connection.socket.write(head('GET /healthz') + head('GET /v1/nothing') + head('GET /readyz'));
    const text = await connection.until(/"redis":"ok"/);
    assert.deepEqual(
      [...text.matchAll(/HTTP\/1.1 (\d+)/g)].map(([, status]) => status),
      ['200', '404', '200'],
    );
  });

  it('takes headers of 16 KiB', async () => {
    const connection = await door.dial();
    connection.socket.write(head('GET /healthz', { 'x-long': 'x'.repeat(15_000) }));
    await connection.until(/200 OK/);
  });

  it('survives nonsense, and tells clients of other protocols to go', async () => {
    for (const bytes of [
      '\x00\x01\x02\r\n\r\n',
      'GET / HTTP/1.0\r\nhost: x\r\n\r\n',
      head('POST /v1/batches', { 'content-length': 'x' }),
      'GET /healthz HTTP/1.1\r\n\r\n',
    ]) {
      const connection = await door.dial();
      connection.socket.write(bytes);
      await connection.closed;
    }
    assert.equal((await door.ask('GET', '/healthz')).status, 200);
  });

  it('tells of every request once: route, status, sizes, account, nothing that a caller wrote', async () => {
    const door = await openDoor();
    await door.ask('POST', '/v1/batches', { body: TASKS });
    await door.ask('GET', '/v1/batches/secret-name');
    await door.ask('BREW', '/nothing/secret-name');
    const told = door.records.map(({ route, method, status, bytes_in, bytes_out }) => [route, method, status, bytes_in, bytes_out > 0]);
    assert.deepEqual(told, [
      ['createBatch', 'POST', 201, JSON.stringify(TASKS).length, true],
      ['getBatch', 'GET', 404, 0, true],
      ['unmatched', 'OTHER', 404, 0, true],
    ]);
    assert.ok(door.records.every(({ duration_ms }) => duration_ms >= 0 && duration_ms < 5_000));
    assert.deepEqual(
      door.records.map(({ account_id }) => account_id?.length),
      [10, 10, undefined],
    );
  });

  it('answers 503 when an endpoint takes longer than a request may', async () => {
    const slow = gate();
    const door = await openDoor({ request_ms: 50, api: { getBatch: () => slow.opened.then(() => ({ body: {} })) } });
    const response = await door.ask('GET', `/v1/batches/${BATCH}`);
    assert.deepEqual([refused(response).code, response.headers['retry-after']], ['unavailable', '1']);
    slow.open();
  });

  it('gives a long body more time than a short one', async () => {
    const slow = gate();
    const door = await openDoor({
      request_ms: 200,
      api: {
        createBatch: () => slow.opened.then(() => ({ body: {} })),
        getBatch: () => slow.opened.then(() => ({ body: {} })),
      },
    });
    const headers = { 'content-type': 'application/json' };
    const long = door.ask('POST', '/v1/batches', { body: JSON.stringify(TASKS) + ' '.repeat(8_388_608), headers });
    const short = await door.ask('POST', '/v1/batches', { body: TASKS });
    const read = await door.ask('GET', `/v1/batches/${BATCH}`);
    slow.open();
    assert.deepEqual([short.status, read.status, (await long).status], [503, 503, 201]);
  });

  it('cannot listen on a port that is in use, and says so', async () => {
    await assert.rejects(openDoor({ port: door.port }), new RegExp(`Cannot listen on 127.0.0.1:${door.port}: the port is in use`));
    await assert.rejects(openDoor({ host: '203.0.113.9' }), /Cannot listen on 203.0.113.9:0: .*EADDRNOTAVAIL/);
  });

  it('closes connections beyond its bound as they come, and takes new ones when others have gone', async () => {
    const door = await openDoor({ connections_max: 2 });
    const [first] = await Promise.all([door.dial(), door.dial()]);
    const third = await door.dial();
    await third.closed;
    first.socket.destroy();
    await first.closed;
    for (;;) {
      const next = await door.dial();
      next.socket.write(head('GET /healthz'));
      if (
        await next.until(/200 OK/).then(
          () => true,
          () => false,
        )
      )
        break;
    }
  });
});
