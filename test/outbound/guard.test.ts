import assert from 'node:assert/strict';
import type { LookupAddress } from 'node:dns';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { type Lookup, Resolver } from '../../src/outbound/resolver.ts';
import { callTo, listen, outboundFor, outcomeOf, receiver } from './receiver.ts';

const LOOPBACK: LookupAddress = { address: '127.0.0.1', family: 4 };
const PUBLIC: LookupAddress = { address: '93.184.216.34', family: 4 };

test('no spelling of loopback is ever dialed', async (t) => {
  let dialed = 0;
  const server = createServer((_request, response) => response.end());
  server.on('connection', () => dialed++);
  const { port } = new URL(await listen(t, server));
  const looked_up: string[] = [];
  const outbound = outboundFor(t, {
    allow_private: false,
    lookup: (name, done) => {
      looked_up.push(name);
      done(null, [LOOPBACK, { address: '::1', family: 6 }]);
    },
  });
  const hosts = [
    '127.0.0.1',
    '127.0.0.1.',
    '2130706433',
    '0x7f.1',
    '0177.0.0.1',
    '127.1',
    '0',
    '①②⑦.⓪.⓪.①',
    '[::1]',
    '[::ffff:127.0.0.1]',
    '[::]',
  ];
  for (const host of [...hosts, 'localhost', 'public.example']) {
    const outcome = await outcomeOf(outbound, callTo(`http://${host}:${port}/`));
    assert.deepEqual([outcome.verdict, outcome.error?.code, outcome.status_code], ['final', 'target_blocked', null], host);
    assert.doesNotMatch(outcome.error?.message ?? '', /\d/);
  }
  assert.deepEqual(looked_up, ['localhost', 'public.example']);
  assert.equal(dialed, 0);
});

test('blocked addresses of a name are dropped and the others are dialed', async (t) => {
  const { port } = new URL(await receiver(t, (_request, response) => response.end()));
  const outbound = outboundFor(t, {
    allow_private: false,
    allow_cidrs: ['127.0.0.1'],
    lookup: (_name, done) => done(null, [{ address: '10.0.0.1', family: 4 }, { address: '::1', family: 6 }, LOOPBACK]),
  });
  assert.equal((await outcomeOf(outbound, callTo(`http://mixed.example:${port}/`))).verdict, 'success');
});

test('a name that alternates between an allowed and a blocked address never reaches the blocked one', async (t) => {
  const reached: (string | undefined)[] = [];
  const server = createServer((request, response) => {
    reached.push(request.socket.localAddress);
    response.end();
  });
  await new Promise<void>((resolve) => server.listen(0, '0.0.0.0', resolve));
  t.after(() => server.close());
  const address = server.address();
  const port = address !== null && typeof address === 'object' ? address.port : 0;
  let asked = 0;
  const lookup: Lookup = (_name, done) => done(null, [asked++ % 2 === 0 ? LOOPBACK : { address: '127.0.0.2', family: 4 }]);
  const verdicts: string[] = [];
  for (let i = 0; i < 6; i++) {
    // Each has a memory of names of its own, so each asks again.
    const outbound = outboundFor(t, { allow_private: false, allow_cidrs: ['127.0.0.1'], lookup });
    verdicts.push((await outcomeOf(outbound, callTo(`http://flip.example:${port}/`))).verdict);
    await outbound.close();
  }
  assert.deepEqual(verdicts, ['success', 'final', 'success', 'final', 'success', 'final']);
  assert.deepEqual(reached, ['127.0.0.1', '127.0.0.1', '127.0.0.1']);
});

test('a redirect to loopback is not dialed', async (t) => {
  let dialed = 0;
  const inside = createServer((_request, response) => response.end());
  inside.on('connection', () => dialed++);
  const location = await listen(t, inside);
  const origin = await receiver(t, (_request, response) => response.writeHead(307, { location }).end());
  await outcomeOf(outboundFor(t), callTo(origin));
  assert.equal(dialed, 0);
});

test('what deny_cidrs names is blocked even where private targets are allowed', async (t) => {
  const origin = await receiver(t, (_request, response) => response.end());
  const outbound = outboundFor(t, { deny_cidrs: ['127.0.0.0/8'], lookup: (_name, done) => done(null, [LOOPBACK]) });
  assert.equal((await outcomeOf(outbound, callTo(origin))).error?.code, 'target_blocked');
  assert.equal((await outcomeOf(outbound, callTo(origin.replace('127.0.0.1', 'localhost')))).error?.code, 'target_blocked');
});

test('closed ports and other protocols are blocked without a connection', async (t) => {
  const outbound = outboundFor(t, { allow_private: false, allow_cidrs: ['127.0.0.1'] });
  for (const url of [
    'http://127.0.0.1:25/',
    'http://example.com:6667/',
    'ftp://example.com/',
    'file:///etc/passwd',
    'unix:/run/redis.sock',
  ]) {
    assert.equal((await outcomeOf(outbound, callTo(url))).error?.code, 'target_blocked', url);
  }
  assert.equal(outbound.stats().connections, 0);
});

test('a name is looked up once for many calls at once, and not again while it is fresh', async () => {
  let now_ms = 0;
  let asked = 0;
  const pending: (() => void)[] = [];
  const resolver = new Resolver(
    () => now_ms,
    (name, done) => {
      asked++;
      pending.push(() => (name === 'bad.example' ? done(Object.assign(new Error('no'), { code: 'ENOTFOUND' }), []) : done(null, [PUBLIC])));
    },
  );
  const ask = (name: string): Promise<string> =>
    new Promise((resolve) => resolver.resolve(name, (error, addresses) => resolve(error?.code ?? addresses.map((a) => a.address).join())));
  const answer = async (): Promise<void> => {
    await new Promise(setImmediate);
    for (const release of pending.splice(0)) release();
  };

  const many = Array.from({ length: 50 }, () => ask('good.example'));
  await answer();
  assert.deepEqual(new Set(await Promise.all(many)), new Set([PUBLIC.address]));
  assert.equal(asked, 1);
  now_ms = 9_999;
  assert.equal(await ask('good.example'), PUBLIC.address);
  assert.equal(asked, 1);
  now_ms = 10_001;
  const again = ask('good.example');
  await answer();
  assert.deepEqual([await again, asked], [PUBLIC.address, 2]);

  const bad = ask('bad.example');
  await answer();
  assert.equal(await bad, 'ENOTFOUND');
  now_ms += 999;
  assert.equal(await ask('bad.example'), 'ENOTFOUND');
  assert.equal(asked, 3);
  now_ms += 2;
  const retried = ask('bad.example');
  await answer();
  assert.deepEqual([await retried, asked], ['ENOTFOUND', 4]);
});

test('a name in use goes on with its last answer while a new look-up gets none, for a minute', async () => {
  let now_ms = 0;
  let fails: 'no' | 'silent' | null = null;
  let asked = 0;
  const silent: (() => void)[] = [];
  const failed = Object.assign(new Error('no'), { code: 'EAI_AGAIN' });
  const resolver = new Resolver(
    () => now_ms,
    (_name, done) => {
      asked++;
      if (fails === 'silent') silent.push(() => done(failed, []));
      else done(fails === null ? null : failed, fails === null ? [PUBLIC] : []);
    },
  );
  const ask = (): Promise<string> =>
    new Promise((resolve) =>
      resolver.resolve('a.example', (error, addresses) => resolve(error?.code ?? addresses.map((a) => a.address).join())),
    );
  assert.equal(await ask(), PUBLIC.address);

  fails = 'silent';
  now_ms = 10_000;
  for (let i = 0; i < 3; i++) assert.equal(await ask(), PUBLIC.address);
  assert.equal(asked, 2);
  fails = 'no';
  for (const end of silent.splice(0)) end();
  assert.equal(await ask(), PUBLIC.address);
  assert.equal(asked, 2);
  now_ms = 69_999;
  assert.equal(await ask(), PUBLIC.address);
  await new Promise(setImmediate);
  assert.equal(asked, 3);
  now_ms = 71_000;
  assert.equal(await ask(), 'EAI_AGAIN');

  fails = null;
  now_ms = 72_000;
  assert.equal(await ask(), PUBLIC.address);
});

test('the memory of names is bounded', async () => {
  const resolver = new Resolver(
    () => 0,
    (_name, done) => done(null, [PUBLIC]),
  );
  for (let i = 0; i < 10_000; i++) resolver.resolve(`${i}.example`, () => {});
  assert.ok(resolver.names <= 4_096);
});
