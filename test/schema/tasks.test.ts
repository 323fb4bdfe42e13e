// A task on the wire: every field, wrong in every way, is a fault at its own place.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { parseJson } from '../../src/schema/json.ts';
import { bodyFaults, checkTask, HEADERS_BYTES_MAX, PAYLOAD_BYTES_MAX, taskFaults, urlFault } from '../../src/schema/task-rules.ts';
import type { TaskInput } from '../../src/schema/types.gen.ts';

const NOW_MS = Date.UTC(2026, 0, 15, 12);
const URL_OK = 'https://example.com/hook';

function at(offset_ms: number): string {
  return new Date(NOW_MS + offset_ms).toISOString();
}

/** Path and message of each fault of a task with a good target and these fields. */
function faults(fields: Record<string, unknown>): string[] {
  return checkTask({ target: URL_OK, ...fields }, NOW_MS).map(({ path, message }) => `${path} ${message}`);
}

describe('checkTask', () => {
  const GOOD: Record<string, unknown>[] = [
    {},
    { target: 'http://localhost:3000' },
    { target: 'HTTPS://EXAMPLE.com' },
    { target: 'https://münchen.example/straße?q=é#x' },
    { target: 'http://[::1]:8080/x' },
    { target: { url: URL_OK } },
    { target: { url: URL_OK, method: 'DELETE', headers: {} } },
    { target: { url: URL_OK, headers: { authorization: 'Bearer x', 'X-A': '', cookie: 'a=b;\tc' } } },
    { target: `https://example.com/${'x'.repeat(2028)}` },
    { payload: null },
    { rate_limiter: 'a' },
    { rate_limiter: 'A-9'.padEnd(64, 'x') },
    { points_cost: 1 },
    { points_cost: 1_000_000 },
    { timeout: 1 },
    { timeout: 900 },
    { timeout: 2.5 },
    { retry: {} },
    { retry: { max_retries: 0, backoff: 'fixed', delay: 0, max_delay: 86_400 } },
    { idempotency_key: 'order:1' },
    { idempotency_key: 'x'.repeat(255) },
    { execute_after: at(-1000) },
    { execute_after: '0001-01-01T00:00:00Z' },
    { execute_after: '2099-12-31T00:00:00Z' },
    { execute_after: '9999-12-31T23:59:59Z' },
    { valid_until: at(1) },
    { execute_after: at(1000), valid_until: at(1001) },
  ];
  for (const fields of GOOD) {
    it(`takes ${JSON.stringify(fields).slice(0, 100)}`, () => assert.deepEqual(faults(fields), []));
  }

  const BAD: [Record<string, unknown>, ...string[]][] = [
    [{ target: undefined }, '/target is required'],
    [{ target: null }, '/target must be a URL string or an object'],
    [{ target: 5 }, '/target must be a URL string or an object'],
    [{ target: [URL_OK] }, '/target must be a URL string or an object'],
    [{ target: '' }, '/target must not be empty'],
    [{ target: {} }, '/target/url is required'],
    [{ target: { url: null } }, '/target/url must be a string'],
    [{ target: { url: '' } }, '/target/url must not be empty'],
    [{ target: { url: URL_OK, verb: 'GET' } }, '/target/verb is not a known field'],
    [{ target: { url: URL_OK, method: 'get' } }, '/target/method must be one of GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS'],
    [{ target: { url: URL_OK, method: 'TRACE' } }, '/target/method must be one of GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS'],
    [{ target: { url: URL_OK, method: null } }, '/target/method must be a string'],
    [{ target: `https://example.com/${'x'.repeat(2029)}` }, '/target must have at most 2048 characters'],
    [{ target: { url: `https://example.com/${'x'.repeat(2029)}` } }, '/target/url must have at most 2048 characters'],
    [{ target: 'ftp://example.com' }, '/target must begin with http:// or https://'],
    [{ target: { url: 'example.com' } }, '/target/url must begin with http:// or https://'],
    [{ target: 'javascript:alert(1)' }, '/target must begin with http:// or https://'],
    [{ target: 'http:example.com' }, '/target must begin with http:// or https://'],
    [{ target: 'http://user@example.com' }, '/target must not carry credentials'],
    [{ target: 'http://:x@example.com/' }, '/target must not carry credentials'],
    [{ target: 'http://@example.com/' }, '/target must not carry credentials'],
    [{ target: 'http://' }, '/target is not a valid URL'],
    [{ target: 'http:///path' }, '/target is not a valid URL'],
    [{ target: 'http://exa mple.com' }, '/target must not have spaces, control characters or backslashes'],
    [{ target: 'http://example.com\\@evil.com' }, '/target must not have spaces, control characters or backslashes'],
    [{ target: 'http://example.com/\t' }, '/target must not have spaces, control characters or backslashes'],
    [{ target: ' http://example.com' }, '/target must not have spaces, control characters or backslashes'],
    [{ target: 'http://example.com:99999/' }, '/target is not a valid URL'],
    [{ target: 'http://1.2.3.4.5/' }, '/target is not a valid URL'],
    [{ target: 'http://a..example.com/' }, '/target is not a valid URL'],
    [{ target: `http://${'a'.repeat(64)}.example.com/` }, '/target is not a valid URL'],
    [{ target: 'http://[::1/' }, '/target is not a valid URL'],
    [{ target: { url: URL_OK, headers: [] } }, '/target/headers must be an object'],
    [{ target: { url: URL_OK, headers: { a: 1 } } }, '/target/headers/a must be a string'],
    [{ target: { url: URL_OK, headers: { 'a b': 'x' } } }, '/target/headers/a b is not a valid header name'],
    [{ target: { url: URL_OK, headers: { '': 'x' } } }, '/target/headers/ is not a valid header name'],
    [{ target: { url: URL_OK, headers: { 'a/b~': 'x' } } }, '/target/headers/a~1b~0 is not a valid header name'],
    [{ target: { url: URL_OK, headers: { a: 'x\r\nb: y' } } }, '/target/headers/a must be visible ASCII characters, spaces and tabs'],
    [{ target: { url: URL_OK, headers: { a: 'é' } } }, '/target/headers/a must be visible ASCII characters, spaces and tabs'],
    [{ target: { url: URL_OK, headers: { a: 'x'.repeat(4097) } } }, '/target/headers/a must have at most 4096 characters'],
    [
      { target: { url: URL_OK, headers: { [`a${'x'.repeat(128)}`]: '' } } },
      `/target/headers/a${'x'.repeat(128)} must have at most 128 characters`,
    ],
    [
      { target: { url: URL_OK, headers: Object.fromEntries(Array.from({ length: 65 }, (_, i) => [`h${i}`, ''])) } },
      '/target/headers must have at most 64 entries',
    ],
    [
      { target: { url: URL_OK, headers: Object.fromEntries(Array.from({ length: 5 }, (_, i) => [`h${i}`, 'x'.repeat(4000)])) } },
      `/target/headers must have at most ${HEADERS_BYTES_MAX} bytes`,
    ],
    [{ target: { url: URL_OK, headers: { 'X-a': '1', 'x-A': '2' } } }, '/target/headers/x-A is given twice'],
    [{ rate_limiter: '' }, '/rate_limiter must be 1 to 64 letters, digits and hyphens'],
    [{ rate_limiter: 'a_b' }, '/rate_limiter must be 1 to 64 letters, digits and hyphens'],
    [{ rate_limiter: 'a\n' }, '/rate_limiter must be 1 to 64 letters, digits and hyphens'],
    [{ rate_limiter: 'x'.repeat(65) }, '/rate_limiter must be 1 to 64 letters, digits and hyphens'],
    [{ rate_limiter: null }, '/rate_limiter must be a string'],
    [{ points_cost: 0 }, '/points_cost must be at least 1'],
    [{ points_cost: 1_000_001 }, '/points_cost must be at most 1000000'],
    [{ points_cost: 1.5 }, '/points_cost must be an integer'],
    [{ points_cost: '1' }, '/points_cost must be an integer'],
    [{ points_cost: 1e20 }, '/points_cost must be at most 1000000'],
    [{ timeout: 0.5 }, '/timeout must be at least 1'],
    [{ timeout: 901 }, '/timeout must be at most 900'],
    [{ timeout: '30' }, '/timeout must be a number'],
    [{ timeout: true }, '/timeout must be a number'],
    [{ retry: null }, '/retry must be an object'],
    [{ retry: { max_retries: -1 } }, '/retry/max_retries must be at least 0'],
    [{ retry: { max_retries: 26 } }, '/retry/max_retries must be at most 25'],
    [{ retry: { max_retries: 2.5 } }, '/retry/max_retries must be an integer'],
    [{ retry: { backoff: 'random' } }, '/retry/backoff must be one of exponential, linear, fixed'],
    [{ retry: { delay: -1 } }, '/retry/delay must be at least 0'],
    [{ retry: { delay: 86_401 } }, '/retry/delay must be at most 86400'],
    [{ retry: { max_delay: '1' } }, '/retry/max_delay must be a number'],
    [{ retry: { jitter: true } }, '/retry/jitter is not a known field'],
    [{ idempotency_key: '' }, '/idempotency_key must be visible ASCII characters'],
    [{ idempotency_key: 'a b' }, '/idempotency_key must be visible ASCII characters'],
    [{ idempotency_key: 'é' }, '/idempotency_key must be visible ASCII characters'],
    [{ idempotency_key: 'x'.repeat(256) }, '/idempotency_key must have at most 255 characters'],
    [{ idempotency_key: 1 }, '/idempotency_key must be a string'],
    [{ execute_after: '2026-02-30T00:00:00Z' }, '/execute_after must be an RFC 3339 timestamp, such as 2026-01-31T09:00:00Z'],
    [{ execute_after: 1_770_000_000 }, '/execute_after must be a string'],
    [{ valid_until: at(0) }, '/valid_until must be in the future'],
    [{ valid_until: at(-1) }, '/valid_until must be in the future'],
    [{ execute_after: at(1000), valid_until: at(1000) }, '/valid_until must be later than execute_after'],
    [{ execute_after: at(-2000), valid_until: at(-1000) }, '/valid_until must be in the future'],
    [{ targets: 1 }, '/targets is not a known field'],
    [{ 'a/b~c': 1 }, '/a~1b~0c is not a known field'],
    [{ timeout: 0, rate_limiter: 7, x: 1 }, '/x is not a known field', '/rate_limiter must be a string', '/timeout must be at least 1'],
    [
      { target: 'http://a b', valid_until: at(0) },
      '/target must not have spaces, control characters or backslashes',
      '/valid_until must be in the future',
    ],
  ];
  for (const [fields, ...expected] of BAD) {
    it(`refuses ${JSON.stringify(fields).slice(0, 100)}`, () => assert.deepEqual(faults(fields), expected));
  }

  for (const value of [null, 1, 'x', [], true]) {
    it(`refuses ${JSON.stringify(value)} as a task`, () => {
      assert.deepEqual(checkTask(value, NOW_MS, '/tasks/3'), [{ path: '/tasks/3', message: 'must be an object' }]);
    });
  }

  for (const name of [
    'Host',
    'Content-Length',
    'content-type',
    'USER-AGENT',
    'Connection',
    'Keep-Alive',
    'Transfer-Encoding',
    'TE',
    'Trailer',
    'Upgrade',
    'Expect',
    'Proxy-Authorization',
    'Proxy-Connection',
    'webhook-id',
    'Webhook-Signature',
    'X-Sluice-Attempt',
    'x-sluice-anything',
  ]) {
    it(`lets nobody set ${name}`, () => {
      assert.deepEqual(faults({ target: { url: URL_OK, headers: { [name]: 'x' } } }), [
        `/target/headers/${name} is set by Sluice or HTTP itself and cannot be given`,
      ]);
    });
  }

  it('measures a payload in bytes as they came', () => {
    const task = (bytes: number): TaskInput => {
      const result = parseJson(Buffer.from(`{"target":"${URL_OK}","payload":"${'x'.repeat(bytes - 2)}"}`));
      assert.ok(result.ok);
      return result.value as TaskInput;
    };
    assert.deepEqual(checkTask(task(PAYLOAD_BYTES_MAX), NOW_MS), []);
    assert.deepEqual(taskFaults(task(PAYLOAD_BYTES_MAX + 1), '/tasks/7', NOW_MS), [
      { path: '/tasks/7/payload', message: 'must have at most 262144 bytes' },
    ]);
  });
});

describe('all faults at once', () => {
  const paths = (found: readonly { path: string }[]): string[] => found.map(({ path }) => path).toSorted();

  it('tells what the rules say of the parts of a task that fit its schema, and nothing twice', () => {
    const wrong = { target: { url: 'ftp://x', headers: { Host: 'a', n: 1 }, foo: 1 }, valid_until: at(-1), execute_after: 5, timeout: 0 };
    assert.deepEqual(paths(checkTask(wrong, NOW_MS, '/tasks/3')), [
      '/tasks/3/execute_after',
      '/tasks/3/target/foo',
      '/tasks/3/target/headers/Host',
      '/tasks/3/target/headers/n',
      '/tasks/3/target/url',
      '/tasks/3/timeout',
      '/tasks/3/valid_until',
    ]);
    for (const value of [
      null,
      1,
      [],
      { target: null },
      { target: {} },
      { target: { headers: { te: 'x' } } },
      { '~a/b': 1, target: URL_OK },
    ]) {
      const found = paths(checkTask(value, NOW_MS));
      assert.ok(found.length > 0);
      assert.deepEqual(found, [...new Set(found)]);
    }
  });

  it('does so for templates of schedules', () => {
    const task = { target: 'ftp://x' };
    const batch_template = { task_templates: [null, task, { ...task, timeout: 0 }], notifications: { on_finish: { url: 'ftp://y' } } };
    assert.deepEqual(paths(bodyFaults('ScheduleCreate', { cron: 1, timezone: 'UTC', batch_template }, NOW_MS)), [
      '/batch_template/notifications/on_finish/url',
      '/batch_template/task_templates/0',
      '/batch_template/task_templates/1/target',
      '/batch_template/task_templates/2/target',
      '/batch_template/task_templates/2/timeout',
      '/cron',
    ]);
    assert.deepEqual(paths(bodyFaults('SchedulePatch', { enabled: 1, task_template: task }, NOW_MS)), [
      '/enabled',
      '/task_template/target',
    ]);
    assert.deepEqual(bodyFaults('SchedulePatch', { task_template: task }, NOW_MS), []);
  });
});

describe('urlFault', () => {
  it('gives the same answer when it remembers and when it has forgotten', () => {
    const urls = Array.from({ length: 25_000 }, (_, i) => `http://h${i}.example${i % 2 === 0 ? '' : ':99999'}/x`);
    for (let round = 0; round < 2; round++) {
      for (const [i, url] of urls.entries()) assert.equal(urlFault(url), i % 2 === 0 ? null : 'is not a valid URL');
    }
  });
});
