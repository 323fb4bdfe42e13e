import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { createServer } from 'node:net';
import { test } from 'node:test';
import type { Method } from '../../src/outbound/call.ts';
import { callTo, outboundFor, outcomeOf, rawReceiver, receiver } from './receiver.ts';

async function bodyOf(request: IncomingMessage): Promise<string> {
  let body = '';
  for await (const chunk of request) body += chunk;
  return body;
}

test('the status decides the verdict', async (t) => {
  const origin = await receiver(t, (request, response) => {
    const status = Number(request.url?.slice(1));
    response.writeHead(status).end();
  });
  const outbound = outboundFor(t);
  for (const status of [200, 201, 202, 204, 206, 226, 299]) {
    const outcome = await outcomeOf(outbound, callTo(`${origin}/${status}`));
    assert.deepEqual([outcome.verdict, outcome.status_code, outcome.error], ['success', status, null]);
  }
  for (const status of [300, 301, 302, 304, 307, 400, 401, 404, 408, 409, 429, 500, 502, 503, 504, 599]) {
    const outcome = await outcomeOf(outbound, callTo(`${origin}/${status}`));
    assert.deepEqual([outcome.verdict, outcome.error], ['retry', { code: 'http_status', message: `HTTP ${status}` }]);
  }
  const gone = await outcomeOf(outbound, callTo(`${origin}/410`));
  assert.deepEqual([gone.verdict, gone.status_code, gone.error?.code], ['final', 410, 'http_status']);
});

test('X-Sluice-Retry: never makes a failure final and leaves a success alone', async (t) => {
  const origin = await receiver(t, (request, response) => {
    response.writeHead(Number(request.url?.slice(1)), { 'X-SLUICE-retry': ' Never ' }).end();
  });
  const outbound = outboundFor(t);
  assert.equal((await outcomeOf(outbound, callTo(`${origin}/500`))).verdict, 'final');
  assert.equal((await outcomeOf(outbound, callTo(`${origin}/200`))).verdict, 'success');
});

test('a redirect is a failed attempt and is never followed', async (t) => {
  let asked = 0;
  const inside = await receiver(t, (_request, response) => {
    asked++;
    response.end();
  });
  const origin = await receiver(t, (_request, response) => response.writeHead(302, { location: `${inside}/` }).end());
  const outcome = await outcomeOf(outboundFor(t), callTo(origin));
  assert.deepEqual([outcome.verdict, outcome.error?.message, asked], ['retry', 'HTTP 302', 0]);
});

test('Retry-After is read as seconds or as a date and capped at one hour', async (t) => {
  const now_ms = Date.UTC(2026, 0, 31, 9, 0, 0);
  const origin = await receiver(t, (request, response) => {
    response.writeHead(503, { 'retry-after': decodeURIComponent(request.url?.slice(1) ?? '') }).end();
  });
  const outbound = outboundFor(t, { now: () => now_ms });
  const cases: [string, number | null][] = [
    ['0', 0],
    ['120', 120_000],
    ['99999', 3_600_000],
    ['Sat, 31 Jan 2026 09:05:00 GMT', 300_000],
    ['Saturday, 31-Jan-26 09:05:00 GMT', 300_000],
    ['Sat Jan 31 09:05:00 2026', 300_000],
    ['Sat, 31 Jan 2026 08:00:00 GMT', 0],
    ['Sun, 31 Jan 2027 09:00:00 GMT', 3_600_000],
    ['-1', null],
    ['1.5', null],
    ['2026', 2_026_000],
    ['soon', null],
    ['2026-01-31', null],
  ];
  for (const [value, expected] of cases) {
    const outcome = await outcomeOf(outbound, callTo(`${origin}/${encodeURIComponent(value)}`));
    assert.equal(outcome.retry_after_ms, expected === null ? null : Math.min(expected, 3_600_000), value);
  }
});

test('X-Points-Used is an integer, 1,000,000 of it at most, or nothing', async (t) => {
  const origin = await receiver(t, (request, response) => {
    response.writeHead(200, { 'x-points-used': decodeURIComponent(request.url?.slice(1) ?? '') }).end();
  });
  const outbound = outboundFor(t);
  for (const [value, expected] of [
    ['0', 0],
    ['17', 17],
    ['5 ', 5],
    ['7 \t', 7],
    ['1000000', 1_000_000],
    ['1000001', 1_000_000],
    ['9'.repeat(20), 1_000_000],
    ['-1', null],
    ['1.5', null],
    ['x', null],
  ] as const) {
    assert.equal((await outcomeOf(outbound, callTo(`${origin}/${encodeURIComponent(value)}`))).points_used, expected, value);
  }
});

test('the request carries our headers and the caller’s, and the body as it is', async (t) => {
  const seen: { method: string | undefined; headers: NodeJS.Dict<string | string[]>; body: string }[] = [];
  const origin = await receiver(t, async (request, response) => {
    seen.push({ method: request.method, headers: request.headers, body: await bodyOf(request) });
    response.end();
  });
  const outbound = outboundFor(t, { now: () => 1_763_661_234_567 });
  const methods: Method[] = ['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'GET', 'HEAD'];
  for (const method of methods) {
    const call = callTo(`${origin}/x?y=1`, { method, attempt: 3, batch_id: 'batch_9', headers: ['Authorization', 'Bearer t', 'X-A', 'ü'] });
    assert.equal((await outcomeOf(outbound, call)).verdict, 'success');
  }
  assert.deepEqual(
    seen.map((request) => request.method),
    methods,
  );
  for (const { method, headers, body } of seen) {
    const bodiless = method === 'GET' || method === 'HEAD';
    assert.equal(body, bodiless ? '' : '{"n":1}');
    assert.equal(headers['content-type'], bodiless ? undefined : 'application/json');
    assert.equal(headers['user-agent'], 'Sluice/1.2.3');
    assert.equal(headers['webhook-id'], 'task_1');
    assert.equal(headers['webhook-timestamp'], '1763661234');
    assert.match(String(headers['webhook-signature']), /^v1,[A-Za-z0-9+/]{43}=$/);
    assert.equal(headers['x-sluice-attempt'], '3');
    assert.equal(headers['x-sluice-batch-id'], 'batch_9');
    assert.equal(headers['authorization'], 'Bearer t');
    assert.equal(headers['accept-encoding'], undefined);
    assert.equal(headers['expect'], undefined);
  }
});

test('headers of one call do not show up in the next', async (t) => {
  const seen: string[][] = [];
  const origin = await receiver(t, (request, response) => {
    seen.push(request.rawHeaders);
    response.end();
  });
  const outbound = outboundFor(t);
  await outcomeOf(outbound, callTo(origin, { headers: ['x-secret', 'a'], batch_id: 'batch_1' }));
  await outcomeOf(outbound, callTo(origin, { method: 'GET' }));
  assert.ok(seen[0]?.includes('x-secret'));
  assert.ok(!seen[1]?.some((part) => /x-secret|batch/.test(part)));
});

test('the excerpt is the first 1 KiB where that is text', async (t) => {
  const answers: Record<string, [headers: Record<string, string>, body: Buffer | string, expected: string | null]> = {
    json: [{ 'content-type': 'application/json' }, '{"a":"é"}', '{"a":"é"}'],
    none: [{}, '', null],
    long: [{ 'content-type': 'text/plain' }, 'a'.repeat(5_000), 'a'.repeat(1_024)],
    torn: [{}, `a${'é'.repeat(2_000)}`, `a${'é'.repeat(511)}`],
    lines: [{}, 'a\r\n\tb', 'a\r\n\tb'],
    binary: [{ 'content-type': 'application/octet-stream' }, Buffer.from([0x89, 0x50, 0x4e, 0x47, 0, 1]), null],
    control: [{ 'content-type': 'application/json' }, 'a\u0000b', null],
    latin1: [{ 'content-type': 'text/html; charset=iso-8859-1' }, Buffer.from('caf\xe9', 'latin1'), 'caf\ufffd'],
    gzip: [{ 'content-type': 'text/plain', 'content-encoding': 'gzip' }, 'not unpacked', null],
    identity: [{ 'content-encoding': 'identity' }, 'plain', 'plain'],
  };
  const origin = await receiver(t, (request, response) => {
    const [headers, body] = answers[request.url?.slice(2) ?? ''] ?? [{}, ''];
    response.writeHead(request.url?.startsWith('/2') ? 200 : 500, headers);
    // Without a length the body comes in chunks: both ways of keeping it are met.
    if (request.method === 'PUT') response.write('');
    response.end(body);
  });
  const outbound = outboundFor(t);
  for (const [name, [, , expected]] of Object.entries(answers)) {
    for (const method of ['POST', 'PUT'] as const) {
      for (const status of [2, 5]) {
        assert.equal((await outcomeOf(outbound, callTo(`${origin}/${status}${name}`, { method }))).excerpt, expected, name);
      }
    }
  }
});

test('a body in many pieces gives one excerpt', async (t) => {
  const origin = await rawReceiver(t, (socket) => {
    socket.write('HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nab');
    setImmediate(() => socket.write('cd', () => setImmediate(() => socket.write('ef'))));
  });
  assert.equal((await outcomeOf(outboundFor(t), callTo(origin))).excerpt, 'abcdef');
});

test('a refused connection, an unknown name and a lost connection have their own codes', async (t) => {
  const closed = createServer();
  await new Promise<void>((resolve) => closed.listen(0, '127.0.0.1', resolve));
  const address = closed.address();
  await new Promise((resolve) => closed.close(resolve));
  const port = address !== null && typeof address === 'object' ? address.port : 0;
  const outbound = outboundFor(t, {
    lookup: (_name, done) => done(Object.assign(new Error('getaddrinfo ENOTFOUND nowhere.example'), { code: 'ENOTFOUND' }), []),
  });

  const refused = await outcomeOf(outbound, callTo(`http://127.0.0.1:${port}/`));
  assert.deepEqual([refused.verdict, refused.error?.code, refused.status_code], ['retry', 'connect', null]);
  assert.match(refused.error?.message ?? '', /ECONNREFUSED/);
  assert.doesNotMatch(refused.error?.message ?? '', /127/);

  const unknown = await outcomeOf(outbound, callTo('http://nowhere.example/'));
  assert.deepEqual([unknown.verdict, unknown.error?.code], ['retry', 'dns']);

  const dropping = await rawReceiver(t, (socket) => socket.destroy());
  const dropped = await outcomeOf(outbound, callTo(dropping));
  assert.deepEqual([dropped.verdict, dropped.error?.code], ['retry', 'reset']);

  const resetting = await rawReceiver(t, (socket) => socket.resetAndDestroy());
  assert.equal((await outcomeOf(outbound, callTo(resetting))).error?.code, 'reset');
});

test('a header that HTTP cannot carry is an outcome, not a throw, and comes after call() returns', async (t) => {
  const outbound = outboundFor(t);
  let returned = false;
  const outcome = await new Promise<{ code: string | undefined; returned: boolean }>((resolve) => {
    outbound.call(callTo('http://127.0.0.1:9999/', { headers: ['expect', '100-continue'] }), (o) =>
      resolve({ code: o.error?.code, returned }),
    );
    returned = true;
  });
  assert.deepEqual(outcome, { code: 'protocol', returned: true });
});
