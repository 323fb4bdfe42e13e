// Section 10 of the contract: what operators ask.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../../helpers/redis.ts';
import { freshPath, type Stage, tasksFor } from '../stage.ts';

/** Metrics that operators' dashboards and alarms build on. */
const NAMED = [
  'sluice_callbacks_total',
  'sluice_callbacks_in_flight',
  'sluice_callback_duration_seconds',
  'sluice_delivery_lag_seconds',
  'sluice_queue_depth',
  'sluice_oldest_waiting_seconds',
  'sluice_batches_created_total',
  'sluice_tasks_created_total',
  'sluice_recovered_leases_total',
  'sluice_thread_restarts_total',
  'sluice_threads',
  'sluice_event_loop_lag_seconds',
  'sluice_redis_up',
  'sluice_redis_memory_bytes',
  'sluice_api_request_seconds',
  'sluice_build_info',
];

export function operations({ client, engine, nobody, receiver }: Stage): void {
  const { acme } = client;

  test('/healthz and /readyz ask for no token', async () => {
    const [health, ready] = await Promise.all([nobody.ask('GET', '/healthz'), nobody.ask('GET', '/readyz')]);
    assert.deepEqual([health.status, health.json], [200, { status: 'ok' }]);
    assert.deepEqual([ready.status, ready.json], [200, { status: 'ok', checks: { redis: 'ok', threads: 'ok' } }]);
  });

  test('/metrics has the named metrics, counts, and names no account, id or URL', async () => {
    const before = await metrics(engine.url);
    const path = freshPath();
    const { id } = await acme.create({ tasks: tasksFor(receiver.at(path), 5) });
    await acme.ended(id, 'completed');
    const counted = async (): Promise<boolean> => {
      const now = await metrics(engine.url);
      const grown = (name: string): number => sum(now, name) - sum(before, name);
      return (
        grown('sluice_callbacks_total{outcome="completed"}') >= 5 &&
        grown('sluice_batches_created_total') >= 1 &&
        grown('sluice_tasks_created_total{source="batch"}') >= 5 &&
        grown('sluice_callback_duration_seconds_count') >= 5 &&
        grown('sluice_delivery_lag_seconds_count') >= 5 &&
        grown('sluice_api_request_seconds_count{route="createBatch",status="201"}') >= 1
      );
    };
    await until(counted, 5_000, 'the counters to grow');
    const text = await metrics(engine.url);
    // The one that it is read over.
    assert.ok(sum(text, 'sluice_http_connections') >= 1);
    for (const name of NAMED) assert.match(text, new RegExp(`^# TYPE ${name} (counter|gauge|histogram)$`, 'm'));
    for (const secret of ['acme', id, receiver.url, path]) assert.ok(!text.includes(secret), secret);
  });

  test('/openapi.json is OpenAPI 3.1 and knows every endpoint', async () => {
    const { status, json, headers } = await nobody.ask('GET', '/openapi.json');
    assert.deepEqual([status, headers['content-type']], [200, 'application/json']);
    const document = json as { openapi: string; paths: Record<string, Record<string, unknown>> };
    assert.match(document.openapi, /^3\.1\./);
    const endpoints = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method} ${path}`),
    );
    for (const endpoint of [
      'post /v1/batches',
      'get /v1/batches',
      'get /v1/batches/{batch_id}',
      'post /v1/batches/{batch_id}/tasks',
      'get /v1/batches/{batch_id}/tasks',
      'post /v1/batches/{batch_id}/cancel',
      'post /v1/batches/{batch_id}/release',
      'post /v1/batches/{batch_id}/retry',
      'delete /v1/batches/{batch_id}',
      'get /v1/batches/{batch_id}/notifications',
      'post /v1/batches/{batch_id}/notifications/{notification_id}/redeliver',
      'post /v1/batches/{batch_id}/stream-tickets',
      'get /v1/batches/{batch_id}/stream',
      'get /v1/batches/{batch_id}/events',
      'post /v1/tasks',
      'get /v1/tasks/{task_id}',
      'post /v1/tasks/{task_id}/cancel',
      'post /v1/tasks/{task_id}/retry',
      'post /v1/rate-limiters',
      'get /v1/rate-limiters',
      'get /v1/rate-limiters/{rate_limiter_id}',
      'patch /v1/rate-limiters/{rate_limiter_id}',
      'delete /v1/rate-limiters/{rate_limiter_id}',
      'get /v1/rate-limiters/{rate_limiter_id}/usage',
      'post /v1/rate-limiters/{rate_limiter_id}/pause',
      'post /v1/rate-limiters/{rate_limiter_id}/resume',
      'post /v1/rate-limiters/{rate_limiter_id}/reset',
      'get /v1/signing-secret',
      'post /v1/signing-secret/rotate',
    ]) {
      assert.ok(endpoints.includes(endpoint), endpoint);
    }
  });
}

async function metrics(url: string): Promise<string> {
  const response = await fetch(`${url}/metrics`);
  assert.equal(response.status, 200);
  assert.match(response.headers.get('content-type') ?? '', /^text\/plain; version=0\.0\.4/);
  return response.text();
}

/** Sum over the series that begin with `name`, which may name labels; 0 where there is none. */
export function sum(text: string, name: string): number {
  const labelled = name.endsWith('}');
  return text
    .split('\n')
    .filter((line) => line.startsWith(labelled ? `${name} ` : name) && (labelled || /^[ {]/.test(line.slice(name.length))))
    .reduce((total, line) => total + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
}
