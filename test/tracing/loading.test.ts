// Who does not trace pays for nothing.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { loadConfig } from '../../src/config.ts';
import { tracingFrom } from '../../src/tracing/settings.ts';

const ENDPOINT = 'http://localhost:4318';

/** Files of OpenTelemetry's SDK that are loaded here. Its API, some types and no more, belongs to the metrics library too. */
function loaded(): string[] {
  const files = Object.keys(createRequire(import.meta.url).cache);
  return files.filter((file) => /@opentelemetry\/(?!api\/)/.test(file));
}

test('OpenTelemetry is loaded by the thread that traces, and by nothing else', async () => {
  await Promise.all(['main', 'callbacks.thread', 'cron.thread', 'intake.thread'].map((name) => import(`../../src/${name}.ts`)));
  assert.deepEqual(loaded(), []);
  await import('../../src/callbacks.traced.thread.ts');
  assert.ok(loaded().length > 0);
});

test('the variables of OpenTelemetry say whether attempts are traced, and which', () => {
  const read = (env: Record<string, string>) => loadConfig({ OTEL_EXPORTER_OTLP_ENDPOINT: ENDPOINT, ...env }).tracing;
  assert.equal(loadConfig({ OTEL_SERVICE_NAME: 'x', OTEL_EXPORTER_OTLP_ENDPOINT: '' }).tracing, null);
  assert.equal(read({ OTEL_SDK_DISABLED: 'TRUE' }), null);
  assert.deepEqual(read({}), { sampler: 'parentbased_always_on', ratio: 1 });
  assert.deepEqual(read({ OTEL_TRACES_SAMPLER: 'parentbased_traceidratio', OTEL_TRACES_SAMPLER_ARG: '0.1' }), {
    sampler: 'parentbased_traceidratio',
    ratio: 0.1,
  });
  assert.deepEqual(loadConfig({ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${ENDPOINT}/v1/traces` }).tracing?.ratio, 1);
});

test('what cannot be done stops the start, with the rest of what is wrong', () => {
  const faults: string[] = [];
  tracingFrom(
    {
      OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4318',
      OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc',
      OTEL_TRACES_SAMPLER: 'jaeger_remote',
      OTEL_TRACES_SAMPLER_ARG: '2',
    },
    (name) => faults.push(name),
  );
  const names = ['OTEL_EXPORTER_OTLP_ENDPOINT', 'OTEL_EXPORTER_OTLP_PROTOCOL', 'OTEL_TRACES_SAMPLER', 'OTEL_TRACES_SAMPLER_ARG'];
  assert.deepEqual(faults, names);
  assert.throws(
    () => loadConfig({ OTEL_EXPORTER_OTLP_ENDPOINT: 'x', SLUICE_PORT: '-1' }),
    /SLUICE_PORT .*\n.*OTEL_EXPORTER_OTLP_ENDPOINT/s,
  );
});
