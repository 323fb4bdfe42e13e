// Spans of API requests and of notifications: what a real collector is told by a real engine.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:net';
import { describe, test } from 'node:test';
import { AT_ONCE, freshPath, tasksFor } from '../engine/stage.ts';
import { api } from '../helpers/api.ts';
import { type CollectedSpan, type Collector, startCollector } from '../helpers/collector.ts';
import { startEngine, TOKENS } from '../helpers/engine.ts';
import { type ReceivedCall, startReceiver } from '../helpers/receiver.ts';
import { until } from '../helpers/redis.ts';

const receiver = await startReceiver();
const [all, shares] = await Promise.all([startCollector(), startCollector()]);
const [engine, sampling] = await Promise.all([
  startEngine({ env: { OTEL_EXPORTER_OTLP_ENDPOINT: all.url } }),
  startEngine({
    env: { OTEL_EXPORTER_OTLP_ENDPOINT: shares.url, OTEL_TRACES_SAMPLER: 'parentbased_traceidratio', OTEL_TRACES_SAMPLER_ARG: '0.5' },
  }),
]);
const client = api(engine, TOKENS.acme);

const SERVER = 2;
const ERROR = 2;

function newTrace(flags = '01') {
  const trace_id = randomBytes(16).toString('hex');
  const parent_id = randomBytes(8).toString('hex');
  return { trace_id, parent_id, headers: { traceparent: `00-${trace_id}-${parent_id}-${flags}`, tracestate: 'congo=t61rcWkgMzE' } };
}

/** The one span of a request that is made with these headers. */
async function spanOf(headers: Record<string, string>, trace_id: string, ask: (headers: Record<string, string>) => Promise<unknown>) {
  await ask(headers);
  const [span, ...more] = await all.trace(trace_id, 1);
  assert.ok(span !== undefined && more.length === 0);
  return span;
}

const named = (spans: readonly CollectedSpan[], name: string): CollectedSpan[] => spans.filter((span) => span.name === name);
const traceparentOf = (call: ReceivedCall | undefined): string => String(call?.headers['traceparent']);

describe('a request of the API', () => {
  test('is a span named after its route, under that of its caller, with what the conventions ask for and nothing secret', async () => {
    const { id } = await client.create({ tasks: tasksFor(receiver.at(freshPath()), 1) });
    const { trace_id, parent_id, headers } = newTrace();
    const from_ms = Date.now();
    const more = { ...headers, 'x-request-id': 'mine-1', 'x-forwarded-proto': 'https' };
    const span = await spanOf(more, trace_id, (headers) => client.ask('GET', `/v1/batches/${id}/tasks?status=failed`, { headers }));
    assert.deepEqual([span.name, span.kind, span.parent_id, span.status], ['GET /v1/batches/{batch_id}/tasks', SERVER, parent_id, 0]);
    assert.deepEqual(span.attributes, {
      'http.request.method': 'GET',
      'http.route': '/v1/batches/{batch_id}/tasks',
      'url.path': `/v1/batches/${id}/tasks`,
      'url.scheme': 'https',
      'sluice.request.id': 'mine-1',
      'http.response.status_code': 200,
    });
    assert.ok(span.start_ms >= from_ms && span.end_ms > span.start_ms && span.end_ms < Date.now() + 1_000);
    assert.equal(span.resource['service.name'], 'sluice');
  });

  test('is one whatever is answered; that a caller is refused is no error of the server', async () => {
    const seen = async (method: string, path: string, body?: unknown, more: Record<string, string> = {}) => {
      const { trace_id, headers } = newTrace();
      const { name, attributes, status } = await spanOf(headers, trace_id, (trace) =>
        client.ask(method, path, { body, headers: { ...more, ...trace } }),
      );
      assert.equal(attributes['url.scheme'], 'http');
      return [name, attributes['http.route'], attributes['http.response.status_code'], status];
    };
    const tasks = '/v1/tasks';
    assert.deepEqual(await seen('POST', tasks, {}), ['POST /v1/tasks', tasks, 400, 0]);
    assert.deepEqual(await seen('POST', tasks, {}, { authorization: 'Bearer nobody' }), ['POST /v1/tasks', tasks, 401, 0]);
    assert.deepEqual(await seen('GET', `${tasks}/x`), ['GET /v1/tasks/{task_id}', '/v1/tasks/{task_id}', 404, 0]);
    assert.deepEqual(await seen('DELETE', tasks), ['DELETE /v1/tasks', tasks, 405, 0]);
    assert.deepEqual(await seen('GET', '/v1/nothing'), ['GET', undefined, 404, 0]);
    assert.deepEqual(await seen('HEAD', '/v1/batches'), ['HEAD /v1/batches', '/v1/batches', 200, 0]);
    assert.deepEqual(await seen('PURGE', tasks), ['HTTP /v1/tasks', tasks, 405, 0]);
  });

  test('is an error where its client goes away before the answer', async () => {
    const { trace_id, headers } = newTrace();
    const socket = connect(Number(new URL(engine.url).port), '127.0.0.1');
    socket.write(
      `POST /v1/tasks HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${TOKENS.acme}\r\nContent-Type: application/json\r\n` +
        `Content-Length: 100\r\ntraceparent: ${headers.traceparent}\r\n\r\n{`,
    );
    await once(socket, 'connect');
    socket.end();
    const [span] = await all.trace(trace_id, 1);
    assert.deepEqual(
      [span?.status, span?.attributes['error.type'], span?.attributes['http.response.status_code']],
      [ERROR, 'client_gone', undefined],
    );
  });

  test('that machines repeat every few seconds, or a browser for a page, is none', async () => {
    const { trace_id, headers } = newTrace();
    for (const path of ['/healthz', '/readyz', '/metrics', '/openapi.json', '/docs']) await client.ask('GET', path, { headers });
    const later = newTrace();
    await spanOf(later.headers, later.trace_id, (headers) => client.ask('GET', '/v1/batches', { headers }));
    assert.ok(all.spans.every((span) => span.trace_id !== trace_id));
  });

  test('begins the trace of what it makes where its caller has none', async () => {
    const path = freshPath();
    const told = freshPath();
    await client.create({ tasks: tasksFor(receiver.at(path), 2), notifications: { on_finish: { url: receiver.at(told) } } });
    const calls = [...(await receiver.heard(path, 2)), ...(await receiver.heard(told, 1))];
    const [, trace_id = ''] = traceparentOf(calls[0]).split('-');
    const spans = await all.trace(trace_id, 1 + 2 * 3 + 3);
    const [request] = named(spans, 'POST /v1/batches');
    assert.equal(request?.parent_id, '');
    for (const span of [...named(spans, 'task'), ...named(spans, 'notification')]) assert.equal(span.parent_id, request.span_id);
    const posts = named(spans, 'POST').map(({ span_id }) => `00-${trace_id}-${span_id}-01`);
    assert.deepEqual(calls.map(traceparentOf).toSorted(), posts.toSorted());
  });

  test('that is repeated with its key makes nothing anew, and is a span all the same', async () => {
    const path = freshPath();
    const [first, second] = [newTrace(), newTrace()];
    const ask = (headers: Record<string, string>) =>
      client.ask('POST', '/v1/tasks', { body: { target: receiver.at(path) }, headers: { ...headers, 'idempotency-key': 'spans' } });
    const [made, again] = [await ask(first.headers), await ask(second.headers)];
    assert.equal(made.text, again.text);
    assert.equal((await all.trace(first.trace_id, 4)).length, 4);
    assert.equal((await all.trace(second.trace_id, 1)).length, 1);
  });
});

describe('a notification', () => {
  test('is a span for each attempt under that of the request that made its batch, and its receiver is told the call', async () => {
    const told = freshPath();
    const url = `${receiver.at(told, { status: 500 }, { status: 200 })}?key=secret`;
    const retrying = await startEngine({ env: { OTEL_EXPORTER_OTLP_ENDPOINT: all.url, SLUICE_NOTIFICATION_RETRY_DELAYS: '0.05s' } });
    const { trace_id, parent_id, headers } = newTrace('03');
    const body = { tasks: tasksFor(receiver.at(freshPath()), 1), notifications: { on_finish: { url } } };
    const { json } = await api(retrying, TOKENS.acme).ask('POST', '/v1/batches', { body, headers });
    const { id } = json as { id: string };
    const calls = await receiver.heard(`${told}?key=secret`, 2);
    const spans = await all.trace(trace_id, 1 + 3 + 2 * 3);
    const [request] = named(spans, 'POST /v1/batches');
    assert.ok(request?.parent_id === parent_id);
    const attempts = named(spans, 'notification');
    for (const [i, span] of attempts.entries()) {
      assert.equal(span.parent_id, request.span_id);
      assert.deepEqual(span.attributes, {
        'sluice.batch.id': id,
        'sluice.notification.id': calls[i]?.headers['webhook-id'],
        'sluice.notification.event': 'on_finish',
        'sluice.attempt': i + 1,
      });
      const [queue, post] = ['queue', 'POST'].map((name) => named(spans, name).find((one) => one.parent_id === span.span_id));
      assert.ok(queue && post);
      assert.equal(traceparentOf(calls[i]), `00-${trace_id}-${post.span_id}-03`);
      assert.equal(calls[i]?.headers['tracestate'], headers.tracestate);
      assert.equal(post.attributes['url.full'], url.replace('?key=secret', ''));
      assert.deepEqual([post.attributes['http.response.status_code'], post.status], i === 0 ? [500, ERROR] : [200, 0]);
      assert.ok(span.end_ms - span.start_ms < 10_000);
    }
    assert.equal(attempts.length, 2);
  });

  test('goes on with a traceparent among its own headers as it stands', async () => {
    const told = freshPath();
    const [own, given] = [newTrace(), newTrace()];
    const on_finish = { url: receiver.at(told), headers: { traceparent: own.headers.traceparent } };
    const body = { tasks: tasksFor(receiver.at(freshPath()), 1), notifications: { on_finish } };
    await client.ask('POST', '/v1/batches', { body, headers: given.headers });
    const [call] = await receiver.heard(told, 1);
    assert.equal(traceparentOf(call), own.headers.traceparent);
  });
});

describe('a share', () => {
  test('is one of requests, each with all that it makes', async () => {
    const path = freshPath();
    const ask = api(sampling, TOKENS.acme);
    const made = new Map<string, boolean>();
    for (let i = 0; i < 24; i++)
      await ask.create({ tasks: tasksFor(receiver.at(path), 2), notifications: { on_finish: { url: receiver.at(path) } } });
    for (const call of await receiver.heard(path, 24 * 3)) {
      const batch_id = String(call.headers['x-sluice-batch-id'] ?? batchOf(call));
      const traced = call.headers['traceparent'] !== undefined;
      assert.equal(made.get(batch_id) ?? traced, traced, batch_id);
      made.set(batch_id, traced);
    }
    const traced = [...made.values()].filter((one) => one).length;
    assert.ok(made.size === 24 && traced > 2 && traced < 22, `${traced} of ${made.size}`);
    await spansOf(shares, traced);
  });

  test('says nothing of those whose callers decided', async () => {
    const path = freshPath();
    const ask = api(sampling, TOKENS.acme);
    const traces = Array.from({ length: 6 }, () => newTrace('01'));
    for (const { headers } of traces) await ask.ask('POST', '/v1/tasks', { body: { target: receiver.at(path), retry: AT_ONCE }, headers });
    for (const { trace_id } of traces) await shares.trace(trace_id, 4);
  });
});

/** A notification names its batch in its body. */
function batchOf({ body }: ReceivedCall): string {
  return (JSON.parse(body.toString()) as { batch: { id: string } }).batch.id;
}

/** So many requests with two tasks and one notification each, and not a span more. */
async function spansOf(collector: Collector, requests: number): Promise<void> {
  await until(() => collector.spans.length >= requests * 10, 20_000, `the spans of ${requests} requests`);
  assert.equal(collector.spans.length, requests * 10);
}
