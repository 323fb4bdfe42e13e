import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { test } from 'node:test';
import { monotonicMs } from '../../src/base/clock.ts';
import type { Outcome } from '../../src/outbound/call.ts';
import { Deadlines, type Timed } from '../../src/outbound/deadlines.ts';
import { callTo, listen, outboundFor, outcomeOf, receiver } from './receiver.ts';

class Entry implements Timed {
  due_tick = -1;
  due_prev: Timed | null = null;
  due_next: Timed | null = null;
  readonly onDeadline: () => void;
  constructor(onDeadline: () => void) {
    this.onDeadline = onDeadline;
  }
}

test('entries come due in order of their deadlines, never early and at most one tick late', async () => {
  const wheel = new Deadlines(monotonicMs);
  const late: number[] = [];
  const order: number[] = [];
  const delays_ms = [260, 0, 30, 120, 31, 75, 200, 5];
  await new Promise<void>((resolve) => {
    for (const delay_ms of delays_ms) {
      const begun_ms = monotonicMs();
      const entry = new Entry(() => {
        late.push(monotonicMs() - begun_ms - delay_ms);
        order.push(delay_ms);
        if (order.length === delays_ms.length) resolve();
      });
      wheel.add(entry, begun_ms, delay_ms);
    }
  });
  assert.ok(
    late.every((ms) => ms >= 0 && ms < 100),
    String(late),
  );
  assert.ok(order.indexOf(260) > order.indexOf(200) && order.indexOf(200) > order.indexOf(120) && order.indexOf(75) > order.indexOf(30));
  assert.equal(wheel.size, 0);
});

test('an entry that was removed, also by another that comes due with it, is not called', async () => {
  const wheel = new Deadlines(monotonicMs);
  const called: string[] = [];
  await new Promise<void>((resolve) => {
    const removed = new Entry(() => called.push('removed'));
    wheel.add(removed, monotonicMs(), 20);
    wheel.remove(removed);
    wheel.remove(removed);
    const adds = new Entry(() => {
      called.push('adds');
      wheel.add(new Entry(() => resolve()), monotonicMs(), 30);
    });
    wheel.add(adds, monotonicMs(), 20);
  });
  assert.deepEqual(called, ['adds']);
});

test('entries beyond one revolution, and those passed over by a stall, come due when they should', async () => {
  let now_ms = 1_000_000;
  const wheel = new Deadlines(() => now_ms);
  const called: number[] = [];
  const until = async (count: number): Promise<void> => {
    while (called.length < count) await new Promise((resolve) => setTimeout(resolve, 5));
  };
  for (const delay_s of [1, 60, 100, 900]) wheel.add(new Entry(() => called.push(delay_s)), now_ms, delay_s * 1000);
  now_ms += 999;
  await new Promise((resolve) => setTimeout(resolve, 60));
  assert.deepEqual(called, []);
  now_ms += 51_000;
  await until(1);
  assert.deepEqual(called, [1]);
  now_ms += 60_000;
  await until(3);
  assert.deepEqual(
    [...called].sort((a, b) => a - b),
    [1, 60, 100],
  );
  now_ms += 800_000;
  await until(4);
  assert.equal(wheel.size, 0);
});

test('the deadline covers a receiver that never answers', async (t) => {
  const origin = await receiver(t, () => {});
  const outcome = await outcomeOf(outboundFor(t), callTo(origin, { timeout_ms: 150 }));
  assert.deepEqual([outcome.verdict, outcome.error], ['retry', { code: 'timeout', message: 'No complete answer came within 150 ms.' }]);
  assert.ok(outcome.duration_ms >= 150 && outcome.duration_ms < 300, `${outcome.duration_ms} ms`);
});

test('the deadline covers a resolver and a handshake that never end', async (t) => {
  const silent = await listen(t, createServer(), 'https');
  const outbound = outboundFor(t, { lookup: () => {} });
  for (const url of ['http://slow.example/', `${silent}/`]) {
    const outcome = await outcomeOf(outbound, callTo(url, { timeout_ms: 150 }));
    assert.equal(outcome.error?.code, 'timeout');
    assert.ok(outcome.duration_ms < 300, `${outcome.duration_ms} ms`);
  }
  assert.equal(outbound.stats().connections, 0);
});

test('time in the queue counts, and a call that waited in vain is never sent', async (t) => {
  const seen: (string | undefined)[] = [];
  let release = (): void => {};
  const origin = await receiver(t, (request, response) => {
    seen.push(request.url);
    release = () => response.end();
    if (request.url === '/third') response.end();
  });
  const outbound = outboundFor(t, { connections_per_origin_max: 1 });
  const first = outcomeOf(outbound, callTo(`${origin}/first`));
  const second = await outcomeOf(outbound, callTo(`${origin}/second`, { timeout_ms: 100 }));
  assert.equal(second.error?.code, 'timeout');
  release();
  assert.equal((await first).verdict, 'success');
  assert.equal((await outcomeOf(outbound, callTo(`${origin}/third`))).verdict, 'success');
  assert.deepEqual(seen, ['/first', '/third']);
});

test('a connection whose call timed out is not reused for the next', async (t) => {
  const origin = await receiver(t, (request, response) => {
    if (request.url === '/hang') return;
    response.end('fresh');
  });
  const outbound = outboundFor(t, { connections_per_origin_max: 1 });
  for (let i = 0; i < 3; i++) {
    assert.equal((await outcomeOf(outbound, callTo(`${origin}/hang`, { timeout_ms: 60 }))).error?.code, 'timeout');
    assert.equal((await outcomeOf(outbound, callTo(`${origin}/ok`))).excerpt, 'fresh');
  }
});

test('abort ends a call wherever it is, once', async (t) => {
  let arrived = (): void => {};
  const origin = await receiver(t, (request, response) => {
    if (request.url === '/status') response.writeHead(200).write('partial', () => arrived());
    else if (request.url === '/ok') response.end();
    else arrived();
  });
  const outbound = outboundFor(t, { connections_per_origin_max: 1 });

  const outcomes: Outcome[] = [];
  const connecting = outbound.call(callTo(`${origin}/connecting`), (outcome) => outcomes.push(outcome));
  const waiting = outbound.call(callTo(`${origin}/waiting`), (outcome) => outcomes.push(outcome));
  waiting.abort('cancelled');
  connecting.abort('shutdown');
  connecting.abort('cancelled');
  assert.deepEqual(
    outcomes.map((o) => [o.verdict, o.error?.code]),
    [
      ['final', 'cancelled'],
      ['retry', 'shutdown'],
    ],
  );

  const sent = await new Promise<Outcome>((resolve) => {
    const running = outbound.call(callTo(`${origin}/hang`), resolve);
    arrived = () => running.abort('shutdown');
  });
  assert.equal(sent.error?.code, 'shutdown');

  // The status is known: the target has done its work.
  const answered = await new Promise<Outcome>((resolve) => {
    const other = outboundFor(t);
    const running = outbound.call(callTo(`${origin}/status`), resolve);
    // A call that goes there and back meanwhile: what was written before it has been read.
    arrived = () => other.call(callTo(`${origin}/ok`), () => running.abort('shutdown'));
  });
  assert.deepEqual([answered.verdict, answered.status_code, answered.excerpt], ['success', 200, 'partial']);
  assert.equal(outbound.stats().running, 0);
});

test('close ends every call, and a call after it ends at once', async (t) => {
  const origin = await receiver(t, () => {});
  const outbound = outboundFor(t, { connections_per_origin_max: 2 });
  const running = Array.from({ length: 6 }, () => outcomeOf(outbound, callTo(origin)));
  await outbound.close();
  for (const outcome of await Promise.all(running)) assert.deepEqual([outcome.verdict, outcome.error?.code], ['retry', 'shutdown']);
  assert.equal((await outcomeOf(outbound, callTo(origin))).error?.code, 'shutdown');
  await outbound.close();
  assert.deepEqual(outbound.stats(), { running: 0, origins: outbound.stats().origins, connections: 0, connections_free: 0, names: 0 });
});
