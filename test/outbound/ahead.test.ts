// Connections that are opened ahead of the calls that are to come.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer as createHttpsServer } from 'node:https';
import { createServer } from 'node:net';
import { type TestContext, test } from 'node:test';
import { ORIGINS_MAX } from '../../src/outbound/pools.ts';
import { until } from '../helpers/redis.ts';
import { callTo, holding, listen, outboundFor, outcomeOf } from './receiver.ts';

test('connections for many calls that are expected are open when these come, and close where none comes', async (t) => {
  const { origin, held, connections, arrived } = await holding(t);
  const outbound = outboundFor(t);
  outbound.expect(origin, 7);
  assert.equal(outbound.stats().connections, 0, 'a few calls open theirs themselves');
  outbound.expect(origin, 8);
  await until(() => outbound.stats().connections_free === 8 && connections() === 8, 5_000, 'them to be open');
  assert.equal(held.length, 0);
  outbound.expect(origin, 8);
  const calls = Array.from({ length: 8 }, () => outcomeOf(outbound, callTo(origin)));
  await arrived(8);
  for (const response of held) response.end();
  assert.ok((await Promise.all(calls)).every((o) => o.verdict === 'success'));
  assert.equal(connections(), 8);
  outbound.expect(origin, 1_000);
  await until(() => outbound.stats().connections_free === 16, 5_000, 'as many as are opened at a time');
  await until(() => connections() === 0, 10_000, 'them to close');
  assert.deepEqual([outbound.stats().connections, outbound.stats().connections_free], [0, 0]);
});

test('calls that come while they are opened have as many connections as without', async (t) => {
  const { origin, arrived, held } = await holding(t);
  const outbound = outboundFor(t, { connections_per_origin_max: 40 });
  outbound.expect(origin, 8);
  const calls = Array.from({ length: 40 }, () => outcomeOf(outbound, callTo(origin)));
  await arrived(40);
  for (const response of held) response.end();
  assert.ok((await Promise.all(calls)).every((o) => o.verdict === 'success'));
});

test('no more are opened than an origin may have, whoever opens them', async (t) => {
  for (const connections_per_origin_max of [1, 2, 16]) {
    const { origin, held, arrived } = await holding(t);
    const outbound = outboundFor(t, { connections_per_origin_max });
    outbound.expect(origin, 16);
    const calls = Array.from({ length: 16 }, () => outcomeOf(outbound, callTo(origin)));
    for (let answered = 0; answered < 16; ) {
      await arrived(Math.min(answered + connections_per_origin_max, 16));
      assert.ok(outbound.stats().connections <= connections_per_origin_max, `${outbound.stats().connections}`);
      for (; answered < held.length; answered++) held[answered]?.end();
    }
    assert.ok((await Promise.all(calls)).every((o) => o.verdict === 'success'));
    assert.ok(outbound.stats().connections <= connections_per_origin_max);
  }
});

/** An origin whose port is closed. */
async function closedOrigin(t: TestContext): Promise<string> {
  const server = createServer();
  const origin = await listen(t, server);
  await new Promise((closed) => server.close(closed));
  return origin;
}

test('to a host that refuses so many are tried, once', async (t) => {
  let looked_up = 0;
  const outbound = outboundFor(t, {
    lookup: (_name, done) => {
      looked_up += 1;
      done(null, [{ address: '127.0.0.1', family: 4 }]);
    },
  });
  for (const origin of [await closedOrigin(t), (await closedOrigin(t)).replace('127.0.0.1', 'closed.example')]) {
    outbound.expect(origin, 16);
    await until(() => outbound.stats().connections === 0, 5_000, 'them to be forgotten');
    for (let turn = 0; turn < 20; turn++) {
      await new Promise(setImmediate);
      assert.equal(outbound.stats().connections, 0);
    }
    const calls = Array.from({ length: 16 }, () => outcomeOf(outbound, callTo(origin)));
    assert.ok((await Promise.all(calls)).every(({ error }) => error?.code === 'connect'));
  }
  assert.ok(looked_up > 0);
});

test('one that cannot be opened fails a call that has none, at once', async (t) => {
  const origin = await closedOrigin(t);
  const outbound = outboundFor(t);
  outbound.expect(origin, 8);
  const calls = Array.from({ length: 24 }, () => outcomeOf(outbound, callTo(origin)));
  assert.ok((await Promise.all(calls)).every(({ error }) => error?.code === 'connect'));
  await until(() => outbound.stats().connections === 0, 5_000, 'all to be forgotten');
});

test('where it is not allowed none is opened', async (t) => {
  const guarded = outboundFor(t, { lookup: (_name, done) => done(null, [{ address: '10.0.0.1', family: 4 }]), allow_private: false });
  for (const target of [await closedOrigin(t), 'http://inside.example']) guarded.expect(target, 8);
  await until(() => guarded.stats().connections === 0, 5_000, 'none to be open');
});

test('one that is opened while another origin is starved goes there', async (t) => {
  const [first, other] = [await holding(t), await holding(t)];
  const outbound = outboundFor(t, { connections_max: 8, connections_per_origin_max: 8 });
  outbound.expect(first.origin, 8);
  const call = outcomeOf(outbound, callTo(other.origin));
  await other.arrived(1);
  other.held[0]?.end();
  assert.equal((await call).verdict, 'success');
});

test('an origin that is forgotten leaves what it had to one that is starved', async (t) => {
  const receiver = await holding(t);
  const outbound = outboundFor(t, { connections_max: 8, lookup: () => {} });
  outbound.expect('http://never.example', 8);
  await until(() => outbound.stats().connections === 8, 5_000, 'all of the budget to be its');
  const call = outcomeOf(outbound, callTo(receiver.origin));
  assert.deepEqual([outbound.stats().running, outbound.stats().connections], [1, 8]);
  for (let other = 0; other < ORIGINS_MAX; other++) outbound.expect(`http://${other}.example`, 1);
  await until(() => receiver.held.length === 1, 5_000, 'the call to be served');
  for (const response of receiver.held) response.end();
  assert.equal((await call).verdict, 'success');
  assert.equal(outbound.stats().connections, 1);
});

test('those that are still being opened at the end are closed', async (t) => {
  const { origin, connections } = await holding(t);
  const outbound = outboundFor(t);
  outbound.expect(origin, 16);
  assert.ok(outbound.stats().connections > 0);
  await outbound.close();
  outbound.expect(origin, 16);
  for (let turn = 0; turn < 20; turn++) {
    assert.equal(outbound.stats().connections, 0);
    await new Promise(setImmediate);
  }
  await until(() => connections() === 0, 5_000, 'the receiver to see none');
});

const pem = (name: string): string => readFileSync(new URL(`tls/${name}.pem`, import.meta.url), 'utf8');

test('over TLS, too, and the name of who answers is judged all the same', async (t) => {
  const [key, cert] = [pem('key'), pem('cert')];
  const server = createHttpsServer({ key, cert }, (_request, response) => response.end('safe'));
  const secure = await listen(t, server, 'https');
  const ahead = outboundFor(t, { ca: cert, lookup: (_name, done) => done(null, [{ address: '127.0.0.1', family: 4 }]) });
  ahead.expect(secure, 8);
  await until(() => ahead.stats().connections_free === 8, 5_000, 'them to be open');
  assert.equal((await outcomeOf(ahead, callTo(secure))).excerpt, 'safe');
  assert.equal(ahead.stats().connections, 8, 'and used');
  ahead.expect(secure.replace('127.0.0.1', 'other.example'), 8);
  assert.equal((await outcomeOf(ahead, callTo(secure.replace('127.0.0.1', 'other.example')))).error?.code, 'tls');
});
