import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { watchLoop } from '../../src/metrics/loop.ts';
import { createMetrics } from '../../src/metrics/registry.ts';
import { METRICS, type MetricRow } from '../../src/metrics/table.ts';

test('every row of the table is served, with its kind', async () => {
  const text = await createMetrics().text();
  for (const [name, row] of Object.entries<MetricRow>(METRICS)) {
    assert.ok(text.includes(`# TYPE sluice_${name} ${row.kind}\n`) || text.endsWith(`# TYPE sluice_${name} ${row.kind}\n`), name);
    assert.match(name, /^[a-z][a-z_]*$/);
    assert.equal(row.kind === 'counter', name.endsWith('_total'), `${name}: counters, and only they, end in _total`);
    for (const label of row.labels) {
      assert.ok(!['batch', 'task', 'url'].includes(label), name);
      assert.ok(label !== 'account' || name.startsWith('limiter_top_'), name);
    }
  }
});

test('counters, gauges and histograms are written as Prometheus reads them', async () => {
  const metrics = createMetrics();
  metrics.counter('callbacks_total', { outcome: 'completed' }).add();
  metrics.counter('callbacks_total', { outcome: 'completed' }).add(2);
  metrics.gauge('queue_depth', { class: 'fresh' }).set(7);
  const lag = metrics.histogram('delivery_lag_seconds', {});
  for (const seconds of [0, 0.001, 0.0011, 5, 100_000]) lag.observe(seconds);
  const lines = (await metrics.text()).split('\n');
  const has = (line: string): void => assert.ok(lines.includes(line), line);
  has('sluice_callbacks_total{outcome="completed"} 3');
  has('sluice_queue_depth{class="fresh"} 7');
  has('sluice_delivery_lag_seconds_bucket{le="0.001"} 2');
  has('sluice_delivery_lag_seconds_bucket{le="0.0025"} 3');
  has('sluice_delivery_lag_seconds_bucket{le="5"} 4');
  has('sluice_delivery_lag_seconds_bucket{le="3600"} 4');
  has('sluice_delivery_lag_seconds_bucket{le="+Inf"} 5');
  has('sluice_delivery_lag_seconds_count 5');
  has('sluice_delivery_lag_seconds_sum 100005.0021');
});

test('threads add up; what a dead one counted stays, what it held goes', async () => {
  const main = createMetrics();
  const thread = createMetrics();
  main.counter('callbacks_total', { outcome: 'failed' }).add(1);
  thread.counter('callbacks_total', { outcome: 'failed' }).add(10);
  thread.gauge('callbacks_in_flight', {}).set(4);
  main.gauge('callbacks_in_flight', {}).set(1);
  thread.gauge('oldest_waiting_seconds', {}).set(9);
  main.gauge('oldest_waiting_seconds', {}).set(3);
  thread.histogram('callback_duration_seconds', {}).observe(0.5);

  const line = async (start: string): Promise<string | undefined> => (await main.text()).split('\n').find((each) => each.startsWith(start));
  main.merge('callbacks-0#1', structuredClone(thread.snapshot()));
  main.merge('callbacks-0#1', structuredClone(thread.snapshot()));
  assert.equal(await line('sluice_callbacks_total{outcome="failed"}'), 'sluice_callbacks_total{outcome="failed"} 11');
  assert.equal(await line('sluice_callbacks_in_flight '), 'sluice_callbacks_in_flight 5');
  assert.equal(await line('sluice_oldest_waiting_seconds '), 'sluice_oldest_waiting_seconds 9');

  main.retire('callbacks-0#1');
  const successor = createMetrics();
  successor.counter('callbacks_total', { outcome: 'failed' }).add(5);
  main.merge('callbacks-0#2', successor.snapshot());
  assert.equal(await line('sluice_callbacks_total{outcome="failed"}'), 'sluice_callbacks_total{outcome="failed"} 16');
  assert.equal(await line('sluice_callbacks_in_flight '), 'sluice_callbacks_in_flight 1');
  assert.equal(await line('sluice_oldest_waiting_seconds '), 'sluice_oldest_waiting_seconds 3');
  assert.equal(await line('sluice_callback_duration_seconds_count'), 'sluice_callback_duration_seconds_count 1');
});

test('a metric keeps a bounded number of series', () => {
  const metrics = createMetrics();
  for (let i = 0; i < 3_000; i++) metrics.counter('thread_restarts_total', { pool: `p${i}` }).add();
  const series = metrics.snapshot()['thread_restarts_total'] ?? {};
  assert.equal(Object.keys(series).length, 1_001);
  assert.deepEqual(series['other'], [2_000]);
});

test('a scrape asks its hooks, and survives one that fails and one that never ends', async () => {
  const metrics = createMetrics();
  const up = metrics.gauge('redis_up', {});
  metrics.beforeText(async () => up.set(1));
  metrics.beforeText(() => Promise.reject(new Error('no redis')));
  metrics.beforeText(() => new Promise(() => {}));
  assert.match(await metrics.text(), /^sluice_redis_up 1$/m);
});

test('what a thread counted is news once', () => {
  const metrics = createMetrics();
  const retries = metrics.counter('callbacks_total', { outcome: 'retry' });
  const in_flight = metrics.gauge('callbacks_in_flight', {});
  const lag = metrics.histogram('delivery_lag_seconds', {});
  assert.notEqual(metrics.news(), null, 'the series themselves');
  assert.equal(metrics.news(), null);
  for (const change of [() => retries.add(), () => in_flight.set(3), () => lag.observe(0.1)]) {
    change();
    assert.deepEqual(metrics.news(), metrics.snapshot());
    assert.equal(metrics.news(), null);
  }
  in_flight.set(3);
  assert.equal(metrics.news(), null, 'a gauge that is set to what it is');
});

test('a blocked event loop shows in its gauge', async () => {
  const metrics = createMetrics();
  const stop = watchLoop(metrics, 'main');
  await new Promise((resolve) => setTimeout(resolve, 30));
  const end_ms = performance.now() + 200;
  while (performance.now() < end_ms);
  await new Promise((resolve) => setTimeout(resolve, 30));
  const [worst = 0] = metrics.snapshot()['event_loop_lag_seconds']?.['main\u0001100'] ?? [];
  stop();
  assert.ok(worst > 0.1 && worst < 2, String(worst));
});

test('the process itself is measured too where asked for', async () => {
  assert.match(await createMetrics({ process_metrics: true }).text(), /^process_resident_memory_bytes \d+$/m);
});

test('each row of the table is named by a source', () => {
  const sources = readdirSync('src', { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && !file.endsWith('.gen.ts') && !['metrics/table.ts', 'metrics/alerts.ts'].includes(file))
    .map((file) => readFileSync(`src/${file}`, 'utf8'));
  for (const name of Object.keys(METRICS)) {
    assert.ok(
      sources.some((text) => text.includes(`'${name}'`)),
      name,
    );
  }
});
