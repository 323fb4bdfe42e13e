// Spans and the collector that takes them, or does not.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLog, limitedLog } from '../../src/base/log.ts';
import type { AttemptStart, SpanFate } from '../../src/tracing/attempts.ts';
import type { TracingSettings } from '../../src/tracing/settings.ts';
import { openTracing } from '../../src/tracing/spans.ts';
import { startCollector } from '../helpers/collector.ts';

const collector = await startCollector();
process.env['OTEL_EXPORTER_OTLP_ENDPOINT'] = collector.url;
const ON: TracingSettings = { sampler: 'parentbased_always_on', ratio: 1 };
const SPANS_OF_ATTEMPT = 3;

function open(settings: TracingSettings = ON) {
  const fates: Record<SpanFate, number> = { exported: 0, failed: 0, dropped: 0 };
  const counted = (fate: SpanFate, spans: number): void => {
    fates[fate] += spans;
  };
  return { fates, tracing: openTracing({ settings, version: '1', counted, log: limitedLog(createLog({ level: 'silent' })) }) };
}

let tasks = 0;

function attempt(more: Partial<AttemptStart> = {}): AttemptStart {
  tasks += 1;
  const now_ms = Date.now();
  return {
    ...{
      name: 'task' as const,
      id: `task_${tasks}`,
      about: {},
      attempt: 1,
      context: null,
      due_ms: now_ms - 5,
      limiter: null,
      started_ms: now_ms,
    },
    ...{ method: 'POST', origin: 'https://hooks.example.com', path: '/x?y' },
    ...more,
  };
}

const FINE = { status_code: 200, error: null };
const CONTEXT = { traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00', tracestate: '' };

test('a collector that does not answer holds up a bounded number of spans; what is beyond is dropped and counted', async () => {
  const { tracing, fates } = open();
  collector.answers('hold');
  for (let i = 0; i < 4_000; i++) tracing.began(attempt())?.ended({ ended_ms: Date.now(), ...FINE });
  // 1,024 of them are on their way.
  assert.deepEqual(fates, { exported: 0, failed: 0, dropped: 4_000 * SPANS_OF_ATTEMPT - 1_024 - 8_192 });
  await tracing.stop(50);
  assert.equal(fates.dropped, 4_000 * SPANS_OF_ATTEMPT - 1_024);
  collector.answers(200);
});

test('who is in no hurry gets all of them', async () => {
  const { tracing, fates } = open();
  for (let i = 0; i < 1_000; i++) tracing.began(attempt())?.ended({ ended_ms: Date.now(), ...FINE });
  await tracing.stop(20_000);
  assert.deepEqual(fates, { exported: 1_000 * SPANS_OF_ATTEMPT, failed: 0, dropped: 0 });
});

test('samplers decide by the caller, by the share, or by neither', () => {
  const traced = (settings: TracingSettings, start?: Partial<AttemptStart>): boolean =>
    open(settings).tracing.began(attempt(start)) !== null;
  const recorded = { ...CONTEXT, traceparent: CONTEXT.traceparent.replace(/00$/, '01') };
  assert.ok(traced(ON) && traced(ON, { context: recorded }) && !traced(ON, { context: CONTEXT }));
  const off: TracingSettings = { sampler: 'parentbased_always_off', ratio: 1 };
  assert.ok(!traced(off) && traced(off, { context: recorded }) && !traced(off, { context: CONTEXT }));
  const every: TracingSettings = { sampler: 'always_on', ratio: 1 };
  assert.ok(traced(every, { context: CONTEXT }));
  const { tracing } = open({ sampler: 'traceidratio', ratio: 0.25 });
  const taken = Array.from({ length: 2_000 }, () => tracing.began(attempt())).filter((one) => one !== null).length;
  assert.ok(taken > 350 && taken < 650, `${taken} of 2,000`);
});

test('no clock makes a span end before it began', async () => {
  const { tracing } = open();
  const now_ms = Date.now();
  const trace_id = 'a'.repeat(32);
  const context = { traceparent: `00-${trace_id}-00f067aa0ba902b7-01`, tracestate: '' };
  const limiter = { name: 'l', granted_ms: now_ms + 1_000 };
  tracing.began(attempt({ context, due_ms: now_ms + 500, started_ms: now_ms, limiter }))?.ended({ ended_ms: now_ms - 10, ...FINE });
  await tracing.stop(20_000);
  const spans = await collector.trace(trace_id, 4);
  for (const { name, start_ms, end_ms } of spans) assert.ok(end_ms >= start_ms && Math.abs(start_ms - now_ms) < 1, name);
});
