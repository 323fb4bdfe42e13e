// Traces: a caller's goes on to the target with every way of making tasks; and where a collector is named, what happened in
// between is told to it.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { describe, test } from 'node:test';
import { api } from '../helpers/api.ts';
import { type CollectedSpan, startCollector } from '../helpers/collector.ts';
import { startEngine, TOKENS } from '../helpers/engine.ts';
import { metric } from '../helpers/metrics.ts';
import { type ReceivedCall, startReceiver } from '../helpers/receiver.ts';
import { until } from '../helpers/redis.ts';
import { AT_ONCE, freshPath, inSeconds, tasksFor } from './stage.ts';

const collector = await startCollector();
const receiver = await startReceiver();
const [plain, traced] = await Promise.all([
  startEngine(),
  startEngine({
    env: {
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_EXPORTER_OTLP_HEADERS: 'api-key=k',
      OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test',
    },
  }),
]);
const client = api(plain, TOKENS.acme);

/** A trace of a caller, and the headers by which he tells of it. */
function newTrace(flags = '01') {
  const trace_id = randomBytes(16).toString('hex');
  const parent_id = randomBytes(8).toString('hex');
  const traceparent = `00-${trace_id}-${parent_id}-${flags}`;
  return { trace_id, parent_id, traceparent, headers: { traceparent, tracestate: 'congo=t61rcWkgMzE' } };
}

const traceOf = ({ headers }: ReceivedCall): [unknown, unknown] => [headers['traceparent'], headers['tracestate']];

describe('without a collector', () => {
  test('the trace of a request goes on as it came, with a task, a batch, tasks that are added, lines, and a run of a schedule, and with what they tell', async () => {
    const [path, told] = [freshPath(), freshPath()];
    const url = receiver.at(path);
    const { traceparent, headers } = newTrace('00');
    const post = async (where: string, body: unknown): Promise<{ id: string }> => {
      const { status, json, text } = await client.ask('POST', where, { body, headers });
      assert.ok(status < 300, text);
      return json as { id: string };
    };
    await post('/v1/tasks', { target: url, payload: 1 });
    const { id } = await post('/v1/batches', {
      tasks: tasksFor(url, 2),
      options: { hold: true },
      notifications: { on_finish: { url: receiver.at(told) } },
    });
    await post(`/v1/batches/${id}/tasks`, { tasks: tasksFor(url, 2) });
    const lines = { 'content-type': 'application/x-ndjson', ...headers };
    const added = await client.ask('POST', `/v1/batches/${id}/tasks`, { raw: `${JSON.stringify({ target: url })}\n`, headers: lines });
    assert.equal(added.status, 200);
    const timing = { cron: '0 0 1 1 *', timezone: 'UTC' };
    const task = await post('/v1/schedules', { ...timing, task_template: { target: url } });
    await post(`/v1/schedules/${task.id}/trigger`, undefined);
    const notifications = { on_finish: { url: receiver.at(told) } };
    const task_templates = [{ target: url, payload: [1] }, { target: url }, { target: { url, headers: { 'x-own': '1' } }, payload: 'é' }];
    const batch = await post('/v1/schedules', { ...timing, batch_template: { task_templates, notifications } });
    await post(`/v1/schedules/${batch.id}/trigger`, undefined);
    const calls = await receiver.heard(path, 10);
    for (const call of calls) assert.deepEqual(traceOf(call), [traceparent, headers.tracestate]);
    assert.deepEqual(
      calls.map(({ body }) => body.toString()).filter((body) => body !== '' && !body.includes('{')),
      ['1', '[1]', '"é"'],
    );
    assert.equal(calls.filter(({ headers }) => headers['x-own'] === '1').length, 1);
    await client.release(id);
    for (const call of await receiver.heard(told, 2)) assert.deepEqual(traceOf(call), [traceparent, headers.tracestate]);
    // What a trigger was told stays with its run.
    await client.ask('POST', `/v1/schedules/${batch.id}/trigger`);
    const later = (await receiver.heard(path, 13)).slice(10);
    const [, , last] = await receiver.heard(told, 3);
    for (const call of [...later, last]) assert.deepEqual(call && traceOf(call), [undefined, undefined]);
  });

  test('it goes with every attempt, and with a retry by hand', async () => {
    const path = freshPath();
    const url = receiver.at(path, { status: 500 }, { status: 500 }, { status: 200 });
    const { traceparent, headers } = newTrace();
    const { json } = await client.ask('POST', '/v1/tasks', { body: { target: url, retry: { ...AT_ONCE, max_retries: 1 } }, headers });
    const { id } = json as { id: string };
    await client.taskWhen(id, ({ status }) => status === 'failed');
    assert.equal((await client.ask('POST', `/v1/tasks/${id}/retry`)).status, 200);
    for (const call of await receiver.heard(path, 3)) assert.equal(traceOf(call)[0], traceparent);
  });

  test('a traceparent among the headers of a target wins, one that is not valid counts as none, and none is no reason to make one', async () => {
    const path = freshPath();
    const url = receiver.at(path);
    const [own, given] = [newTrace(), newTrace()];
    const target = { url, headers: { Traceparent: own.traceparent } };
    await client.ask('POST', '/v1/tasks', { body: { target, payload: 'own' }, headers: given.headers });
    await client.ask('POST', '/v1/tasks', {
      body: { target: url, payload: 'bad' },
      headers: { traceparent: '00-0-0-01', tracestate: 'a=1' },
    });
    await client.ask('POST', '/v1/tasks', { body: { target: url, payload: 'none' } });
    const calls = await receiver.heard(path, 3);
    const by_body = Object.fromEntries(calls.map((call) => [JSON.parse(call.body.toString()) as string, traceOf(call)]));
    assert.deepEqual(by_body, { own: [own.traceparent, undefined], bad: [undefined, undefined], none: [undefined, undefined] });
  });

  test('nobody is shown the trace, and a key is not reused by a request of another one', async () => {
    const body = { target: 'https://192.0.2.1/', execute_after: inSeconds(600) };
    const ask = () => client.ask('POST', '/v1/tasks', { body, headers: { ...newTrace().headers, 'idempotency-key': 'traced' } });
    const [first, again] = [await ask(), await ask()];
    assert.deepEqual([first.status, again.status, again.text], [201, 201, first.text]);
    assert.ok(!JSON.stringify(await client.task((first.json as { id: string }).id)).includes('trace'));
  });
});

describe('with a collector', () => {
  const tracing = api(traced, TOKENS.acme);

  test('an attempt is a span of its own under that of the request that made it, with its queue and its call, whose id the target is told', async () => {
    const path = freshPath();
    const url = `${receiver.at(path, { delay_ms: 50 })}?key=secret`;
    const { trace_id, parent_id, headers } = newTrace('03');
    const { id } = (await tracing.ask('POST', '/v1/batches', { body: { tasks: tasksFor(url, 1) }, headers })).json as { id: string };
    const [call] = await receiver.heard(`${path}?key=secret`, 1);
    const spans = await collector.trace(trace_id, 4);
    const [request, task, queue, post] = ['POST /v1/batches', 'task', 'queue', 'POST'].map((name) =>
      spans.find((span) => span.name === name),
    );
    assert.ok(call && request && task && queue && post && spans.length === 4);
    const parents = [request, task, queue, post].map((span) => span.parent_id);
    assert.deepEqual(parents, [parent_id, request.span_id, task.span_id, task.span_id]);
    assert.deepEqual(traceOf(call), [`00-${trace_id}-${post.span_id}-03`, headers.tracestate]);
    assert.ok(task.start_ms === queue.start_ms && queue.end_ms === post.start_ms && post.end_ms === task.end_ms);
    assert.ok(post.end_ms - post.start_ms >= 49 && Math.abs(Date.now() - post.end_ms) < 60_000);
    assert.deepEqual(task.attributes, { 'sluice.task.id': call.id, 'sluice.batch.id': id, 'sluice.attempt': 1 });
    const { hostname, port } = new URL(url);
    assert.deepEqual(post.attributes, {
      'http.request.method': 'POST',
      'server.address': hostname,
      'server.port': Number(port),
      'url.full': url.replace('?key=secret', ''),
      'http.response.status_code': 200,
    });
    assert.deepEqual([task.kind, queue.kind, post.kind, post.status], [5, 1, 3, 0]);
    assert.equal(task.resource['service.name'], 'sluice');
    assert.equal(task.resource['deployment.environment.name'], 'test');
    assert.ok(collector.requests.every((sent) => sent['api-key'] === 'k' && sent['content-type'] === 'application/json'));
  });

  test('attempts of a task whose request came without a trace share that of the request, and what failed is told', async () => {
    const path = freshPath();
    const url = receiver.at(path, { status: 503 }, { status: 200 });
    await tracing.createTask({ target: url, retry: AT_ONCE });
    const [first, second] = await receiver.heard(path, 2);
    assert.ok(first && second);
    const [, trace_id = '', , flags] = String(first.headers['traceparent']).split('-');
    assert.equal(flags, '01');
    assert.ok(String(second.headers['traceparent']).startsWith(`00-${trace_id}-`));
    const spans = await collector.trace(trace_id, 7);
    const [request] = spans.filter(({ name }) => name === 'POST /v1/tasks');
    assert.equal(request?.parent_id, '');
    const [failed, fine] = spans.filter(({ name }) => name === 'POST');
    assert.deepEqual(
      [failed?.status, failed?.attributes['http.response.status_code'], failed?.attributes['error.type']],
      [2, 503, 'http_status'],
    );
    assert.deepEqual([fine?.status, fine?.attributes['http.request.resend_count']], [0, 1]);
    assert.deepEqual(
      spans.filter(({ name }) => name === 'task').map(({ parent_id }) => parent_id),
      [request.span_id, request.span_id],
    );
  });

  test('what waits for a rate limiter is a span between', async () => {
    const path = freshPath();
    const url = receiver.at(path, { delay_ms: 300 });
    const limiter = { name: 'one-by-one', type: 'concurrent', config: { limit: 1 } };
    assert.equal((await tracing.ask('POST', '/v1/rate-limiters', { body: limiter })).status, 201);
    const { trace_id, headers } = newTrace();
    const tasks = tasksFor(url, 2, { rate_limiter: limiter.name });
    await tracing.ask('POST', '/v1/batches', { body: { tasks }, headers });
    const spans = await collector.trace(trace_id, 9);
    const lasted_ms = (span: CollectedSpan): number => span.end_ms - span.start_ms;
    const waits = spans.filter(({ name }) => name === 'limiter wait').toSorted((a, b) => lasted_ms(a) - lasted_ms(b));
    const [first, second] = waits;
    assert.ok(first && second);
    assert.deepEqual(first.attributes, { 'sluice.rate_limiter': limiter.name });
    const waited_ms = lasted_ms(second);
    assert.ok(waited_ms >= 250, `waited ${waited_ms} ms`);
    const queue = spans.find(({ name, parent_id }) => name === 'queue' && parent_id === second.parent_id);
    assert.ok(queue && queue.start_ms === second.end_ms && lasted_ms(queue) < waited_ms);
  });

  test('a caller who records nothing is passed on as he is, and told of to nobody', async () => {
    const path = freshPath();
    const { trace_id, traceparent, headers } = newTrace('00');
    await tracing.ask('POST', '/v1/tasks', { body: { target: receiver.at(path) }, headers });
    const [call] = await receiver.heard(path, 1);
    assert.ok(call);
    assert.deepEqual(traceOf(call), [traceparent, headers.tracestate]);
    const later = newTrace();
    await tracing.ask('POST', '/v1/tasks', { body: { target: receiver.at(path) }, headers: later.headers });
    await collector.trace(later.trace_id, 4);
    assert.ok(collector.spans.every((span) => span.trace_id !== trace_id));
  });

  test('a collector that refuses costs spans, which are counted, and no task', async () => {
    const fate = (name: string): Promise<number> => metric(traced, `spans_total{fate="${name}"}`);
    assert.ok((await fate('exported')) > 0);
    const path = freshPath();
    collector.answers(400);
    const { id } = await tracing.create({ tasks: tasksFor(receiver.at(path), 5) });
    await tracing.ended(id, 'completed');
    await until(async () => (await fate('failed')) >= 15, 20_000, 'refused spans to be counted');
    collector.answers(200);
  });

  test('what was not sent yet is sent before the process ends', async () => {
    const path = freshPath();
    const { trace_id, headers } = newTrace();
    await tracing.ask('POST', '/v1/tasks', { body: { target: receiver.at(path) }, headers });
    await receiver.heard(path, 1);
    assert.equal(await traced.stop(), 0);
    assert.equal(collector.spans.filter((span) => span.trace_id === trace_id).length, 4);
  });
});
