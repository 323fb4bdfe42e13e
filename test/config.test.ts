import assert from 'node:assert/strict';
import { test } from 'node:test';
import { staleDocs } from '../scripts/gen-docs.ts';
import { ConfigError, loadConfig, SETTINGS } from '../src/config.ts';

test('an empty environment gives the documented defaults', () => {
  const config = loadConfig({ PATH: '/bin', HOME: '/' });
  assert.equal(config.host, '127.0.0.1');
  assert.equal(config.port, 8080);
  assert.equal(config.redis_url, null);
  assert.equal(config.partitions, 16);
  assert.deepEqual(config.roles, ['api', 'callbacks', 'cron', 'streams']);
  assert.deepEqual(config.access_tokens, []);
  assert.equal(config.allow_private_targets, false);
  assert.equal(config.retention_ms, 7 * 86_400_000);
  assert.equal(config.drain_timeout_ms, 25_000);
  assert.equal(config.metrics_token, null);
  assert.deepEqual(config.notification_retry_delays_ms, [30_000, 120_000, 300_000, 600_000, 1_800_000]);
  assert.deepEqual(
    [config.limit_batch_create, config.limit_batch_add, config.limit_batch_status, config.limit_streams, config.max_body_bytes],
    [100, 60, 300, 10, 16_777_216],
  );
  assert.ok(config.callback_threads >= 1);
});

test('every default passes its own check', () => {
  for (const row of Object.values(SETTINGS)) {
    if (row.default !== null) assert.doesNotThrow(() => loadConfig({ [`SLUICE_${row.env}`]: row.default ?? '' }), row.env);
  }
});

test('durations are seconds or carry a unit', () => {
  const read = (text: string): number => loadConfig({ SLUICE_RETENTION: text }).retention_ms;
  assert.deepEqual(['90', '90s', '2m', '1.5h', '7d', ' 10 '].map(read), [90_000, 90_000, 120_000, 5_400_000, 604_800_000, 10_000]);
  for (const text of ['5x', '-1', '1e3', '1 h', '9999999d', '0', 's', '1.2345s']) assert.throws(() => read(text), ConfigError, text);
});

test('durability follows the kind of store unless it is given', () => {
  const read = (env: Record<string, string>): string => loadConfig(env).durability;
  assert.equal(read({}), 'local');
  assert.equal(read({ SLUICE_REDIS_URL: 'redis://h' }), 'local');
  assert.equal(read({ SLUICE_REDIS_URL: 'redis+cluster://h:1' }), 'replicated');
  assert.equal(read({ SLUICE_REDIS_URL: 'redis+sentinel://h:1/m' }), 'replicated');
  assert.equal(read({ SLUICE_REDIS_URL: 'redis+cluster://h:1', SLUICE_DURABILITY: 'strict' }), 'strict');
});

test('tokens, roles and ranges are lists', () => {
  const config = loadConfig({
    SLUICE_ACCESS_TOKENS: 'acme=t0k=en, other=x',
    SLUICE_ROLES: 'cron,api,cron',
    SLUICE_EGRESS_ALLOW_CIDRS: '10.0.0.0/8, ::1',
  });
  assert.deepEqual(config.access_tokens, [
    { account: 'acme', token: 't0k=en' },
    { account: 'other', token: 'x' },
  ]);
  assert.deepEqual(config.roles, ['cron', 'api']);
  assert.deepEqual(config.egress_allow_cidrs, ['10.0.0.0/8', '::1/128']);
});

test('all faults are told at once, and none repeats a secret', () => {
  const env = {
    SLUICE_PORT: '70000',
    SLUICE_ROLES: 'api,boss',
    SLUICE_ALLOW_PRIVATE_TARGETS: 'perhaps',
    SLUICE_EGRESS_DENY_CIDRS: '10.0.0.0/33',
    SLUICE_LOG_LEVEL: 'loud',
    SLUICE_REDIS_URL: 'redis://u:hunter2@h:0',
    SLUICE_ACCESS_TOKENS: 'hunter2',
    SLUICE_METRICS_TOKEN: 'hunter2 hunter2',
    SLUICE_NOTIFICATION_RETRY_DELAYS: '30,,60',
    SLUICE_RETENSION: '7d',
    SLUICE_NONSENSE_ALTOGETHER: '1',
  };
  assert.throws(
    () => loadConfig(env),
    (error: unknown) => {
      assert.ok(error instanceof ConfigError);
      assert.deepEqual(error.faults.map(({ name }) => name).sort(), Object.keys(env).sort());
      assert.match(error.message, /SLUICE_RETENSION is not a setting; did you mean SLUICE_RETENTION\?/);
      assert.match(error.message, /SLUICE_NONSENSE_ALTOGETHER is not a setting$/m);
      assert.match(error.message, /SLUICE_PORT must be a whole number from 0 to 65535 \(it is "70000"\)/);
      assert.ok(!error.message.includes('hunter2'));
      return true;
    },
  );
});

test('an account that cannot be one is told at the start', () => {
  for (const account of ['a b', 'ä', 'a'.repeat(65), '']) {
    assert.throws(() => loadConfig({ SLUICE_ACCESS_TOKENS: `${account}=${'t'.repeat(32)}` }), ConfigError, account);
  }
});

test('an empty value counts as not given, and what Kubernetes injects is ignored', () => {
  const config = loadConfig({
    SLUICE_REDIS_URL: '',
    SLUICE_PORT: 'tcp://10.0.0.1:8080',
    SLUICE_PORT_8080_TCP: 'tcp://10.0.0.1:8080',
    SLUICE_PORT_8080_TCP_ADDR: '10.0.0.1',
    SLUICE_SERVICE_HOST: '10.0.0.1',
    SLUICE_SERVICE_PORT_HTTP: '8080',
    SLUICE_TOKEN: 'slk_x',
  });
  assert.equal(config.port, 8080);
  assert.equal(config.redis_url, null);
});

test('the generated docs are what the tables say', () => {
  assert.deepEqual(staleDocs(), [], 'run scripts/gen-docs.ts');
});
