// The client against a real server: what it sends, what it repeats, what it makes of answers.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import { generate as generateClient } from '../../scripts/gen-client.ts';
import { generate as generateSchema } from '../../scripts/gen-schema.ts';
import { createClient, SluiceError, verifyWebhook } from '../../src/client/index.ts';

interface Seen {
  method: string;
  url: string;
  headers: NodeJS.Dict<string | string[]>;
  body: string;
}

/** A server that answers with these in turn, the last one for ever, and keeps what it was asked. */
async function serverWith(...answers: { status: number; body: unknown; headers?: Record<string, string>; cut?: true }[]) {
  const seen: Seen[] = [];
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      const { method = '', url = '', headers } = request;
      seen.push({ method, url, headers, body: Buffer.concat(parts).toString() });
      const answer = answers[Math.min(seen.length, answers.length) - 1];
      if (answer?.cut === true) {
        response.writeHead(answer.status, { 'Content-Length': 100 }).write('{');
        return void setImmediate(() => response.destroy());
      }
      response.writeHead(answer?.status ?? 500, { 'Content-Type': 'application/json', ...answer?.headers });
      response.end(JSON.stringify(answer?.body));
    });
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  after(() => server.close());
  return { seen, base_url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/` };
}

test('path parameters, body and query go where the endpoint has them, with the token', async () => {
  const { seen, base_url } = await serverWith({ status: 200, body: { total: 0, batches: [] } });
  const sluice = createClient({ base_url, token: 'slk_x' });
  await sluice.listBatches({ status: 'failed', limit: 5 });
  const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
  await sluice.addTasks('batch_a/b', { tasks: [{ target: 'https://example.com' }] }, { traceparent });
  assert.deepEqual(
    seen.map(({ method, url, body }) => [method, url, body]),
    [
      ['GET', '/v1/batches?status=failed&limit=5', ''],
      ['POST', '/v1/batches/batch_a%2Fb/tasks', '{"tasks":[{"target":"https://example.com"}]}'],
    ],
  );
  assert.deepEqual(
    seen.map(({ headers }) => headers.authorization),
    ['Bearer slk_x', 'Bearer slk_x'],
  );
  assert.deepEqual(
    seen.map(({ headers }) => headers['traceparent']),
    [undefined, traceparent],
  );
});

test('a POST is repeated under one Idempotency-Key while the service asks for it', async () => {
  const busy = { status: 503, body: { error: { code: 'unavailable', message: '', details: {} } }, headers: { 'Retry-After': '0' } };
  const { seen, base_url } = await serverWith(busy, { status: 200, body: { id: 'batch_1', status: 'cancelled' } });
  const answer = await createClient({ base_url, token: 't' }).cancelBatch('batch_1');
  assert.equal(answer.status, 'cancelled');
  const keys = seen.map(({ headers }) => headers['idempotency-key']);
  assert.equal(keys.length, 2);
  assert.ok(keys[0]);
  assert.equal(keys[0], keys[1]);
});

test('an answer that breaks off is asked for again under its key, and a conflict with the try before is waited for', async () => {
  const conflict = { status: 409, body: { error: { code: 'idempotency_conflict', message: '', details: {} } } };
  const { seen, base_url } = await serverWith({ status: 201, body: null, cut: true }, conflict, { status: 201, body: { id: 'task_1' } });
  const sluice = createClient({ base_url, token: 't' });
  assert.equal((await sluice.createTask({ target: 'https://example.com' })).id, 'task_1');
  assert.deepEqual([seen.length, new Set(seen.map(({ headers }) => headers['idempotency-key'])).size], [3, 1]);
  const other = await serverWith(conflict);
  const first = createClient({ base_url: other.base_url, token: 't' }).createTask(
    { target: 'https://example.com' },
    { idempotency_key: 'mine' },
  );
  await assert.rejects(first, { code: 'idempotency_conflict' });
  assert.equal(other.seen.length, 1);
});

test('a connection that breaks is tried again, and in the end its error is the caller’s', async () => {
  let calls = 0;
  const broken: typeof fetch = () => {
    calls += 1;
    return Promise.reject(new TypeError('fetch failed'));
  };
  const sluice = createClient({ base_url: 'http://127.0.0.1:1', token: 't', fetch: broken, retries_max: 1 });
  await assert.rejects(sluice.getBatch('batch_1'), /fetch failed/);
  assert.equal(calls, 2);
});

test('a refusal becomes a SluiceError with everything that the service said', async () => {
  const { seen, base_url } = await serverWith({
    status: 409,
    body: { error: { code: 'batch_completed', message: 'No.', details: { batch_id: 'batch_1' } } },
    headers: { 'X-Request-Id': 'r1' },
  });
  const error = await createClient({ base_url, token: 't' })
    .addTasks('batch_1', { tasks: [{ target: 'https://example.com' }] })
    .catch((thrown: unknown) => thrown);
  assert.ok(error instanceof SluiceError);
  assert.deepEqual(
    [error.status, error.code, error.message, error.details, error.request_id],
    [409, 'batch_completed', 'No.', { batch_id: 'batch_1' }, 'r1'],
  );
  assert.equal(seen.length, 1);
});

test('every item of a list comes, page by page, by cursor where it has one', async () => {
  const all = Array.from({ length: 1_203 }, (_, n) => ({ id: `task_${n}` }));
  const page = (from: number, next_cursor: string | null) => {
    return { status: 200, body: { total: all.length, tasks: all.slice(from, from + 500), next_cursor } };
  };
  const { seen, base_url } = await serverWith(page(0, 'a'), page(500, 'b-_'), page(1_000, null));
  const got: unknown[] = [];
  for await (const { id } of createClient({ base_url, token: 't' }).allBatchTasks('batch_1', { status: 'failed' })) got.push({ id });
  assert.deepEqual(got, all);
  const query = (cursor: string): string => `/v1/batches/batch_1/tasks?status=failed&limit=500&cursor=${cursor}`;
  assert.deepEqual(
    seen.map(({ url }) => url),
    ['', 'a', 'b-_'].map(query),
  );
});

test('a list without cursors comes by offset, and none of it is left out in silence', async () => {
  const more = { total: 1_000_000, tasks: Array.from({ length: 500 }, (_, n) => ({ id: `task_${n}` })) };
  const endless = await serverWith({ status: 200, body: more });
  let count = 0;
  const counting = async (): Promise<void> => {
    for await (const _ of createClient({ base_url: endless.base_url, token: 't' }).allScheduleTasks('sched_1')) count++;
  };
  await assert.rejects(counting, RangeError);
  assert.equal(count, 100_500);
});

test('results go on behind the last whole line where an answer breaks off, and refusals are the caller’s', async () => {
  const line = (index: number): string => `${JSON.stringify({ id: `task_${index}`, index, status: 'completed' })}\n`;
  const paths: string[] = [];
  const server = createServer((request, response) => {
    paths.push(request.url ?? '');
    if (paths.length > 1) return void response.end(line(2));
    response.write(line(0) + line(1) + line(2).slice(0, 9));
    setImmediate(() => response.destroy());
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  after(() => server.close());
  const sluice = createClient({ base_url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, token: 't' });
  const seen: number[] = [];
  for await (const { index } of sluice.results('batch_1')) seen.push(index);
  assert.deepEqual(seen, [0, 1, 2]);
  assert.deepEqual(
    paths,
    [0, 2].map((start_index) => `/v1/batches/batch_1/results?format=ndjson&start_index=${start_index}`),
  );
  const body = { error: { code: 'batch_not_found', message: 'No batch has this id.', details: {} } };
  const { seen: asked, base_url } = await serverWith({ status: 404, body });
  await assert.rejects(createClient({ base_url, token: 't' }).results('batch_2').next(), { status: 404, code: 'batch_not_found' });
  assert.equal(asked.length, 1);
});

test('methods and types are those of the routes and schemas', () => {
  assert.equal(readFileSync(new URL('../../src/client/operations.gen.ts', import.meta.url), 'utf8'), generateClient());
  const types = generateSchema().find(({ path }) => path.endsWith('types.gen.ts'));
  assert.equal(readFileSync(types?.path ?? '', 'utf8'), types?.text);
});

test('a webhook is verified exactly where the public library verifies it', async () => {
  const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
  const other = `whsec_${Buffer.alloc(32, 8).toString('base64')}`;
  const now = new Date();
  const body = '{"event":"on_finish"}';
  const signature = new Webhook(secret).sign('msg_1', now, body);
  const headers = { 'webhook-id': 'msg_1', 'webhook-timestamp': String(Math.floor(now.getTime() / 1000)), 'webhook-signature': signature };
  assert.equal(await verifyWebhook(secret, headers, body), true);
  assert.equal(await verifyWebhook([other, secret], headers, Buffer.from(body)), true);
  assert.equal(await verifyWebhook(other, headers, body), false);
  assert.equal(await verifyWebhook(secret, headers, `${body} `), false);
  assert.equal(await verifyWebhook(secret, { ...headers, 'webhook-signature': `v1,@@ v2,x ${signature}` }, body), true);
  assert.equal(await verifyWebhook(secret, { ...headers, 'webhook-signature': undefined }, body), false);
  assert.equal(await verifyWebhook(secret, headers, body, { now_ms: now.getTime() + 301_000 }), false);
  await assert.rejects(verifyWebhook('not-a-secret', headers, body), TypeError);
});
