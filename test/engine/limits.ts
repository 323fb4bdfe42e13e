// Rate limiters seen from outside: tasks through a real engine to a real receiver, where the times of arrival are held
// against what each kind promises, over every span.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { ReceivedCall } from '../helpers/receiver.ts';
import { watchStalls } from '../helpers/stalls.ts';
import { AT_ONCE, freshPath, ONCE, type Stage, tasksFor } from './stage.ts';

/** The way from the engine to the receiver; api.md allows so much. */
const WAY_MS = 20;

let names = 0;

/** Makes a limiter; its name. */
async function makeLimiter(stage: Stage, type: string, config: object, more: object = {}): Promise<{ name: string; id: string }> {
  names += 1;
  const name = `limit-${process.pid}-${names}`;
  const reply = await stage.client.acme.ask('POST', '/v1/rate-limiters', { body: { name, type, config, ...more } });
  assert.equal(reply.status, 201, reply.text);
  return { name, id: (reply.json as { id: string }).id };
}

const stalls = watchStalls();

function times(calls: readonly ReceivedCall[]): number[] {
  return calls.map(({ at_ms }) => at_ms).sort((a, b) => a - b);
}

/** No span of `interval_ms` holds more than `limit` calls. */
function checkSpans(calls: readonly ReceivedCall[], limit: number, interval_ms: number): void {
  const at = times(calls);
  for (let i = 0; i + limit < at.length; i++) {
    const [from, to] = [at[i] ?? 0, at[i + limit] ?? 0];
    const span = to - from + stalls.before(from);
    assert.ok(span >= interval_ms - WAY_MS, `calls ${i} to ${i + limit} came within ${span} ms`);
  }
}

/** For all spans: cost <= capacity + what comes back in that time. */
function checkRate(
  calls: readonly ReceivedCall[],
  capacity: number,
  per_ms: number,
  costOf: (call: ReceivedCall) => number = () => 1,
): void {
  const sorted = [...calls].sort((a, b) => a.at_ms - b.at_ms);
  for (let i = 0; i < sorted.length; i++) {
    let cost = 0;
    for (let j = i; j < sorted.length; j++) {
      const call = sorted[j] as ReceivedCall;
      cost += costOf(call);
      const from = sorted[i]?.at_ms ?? 0;
      const span = call.at_ms - from + (j > i ? stalls.before(from) : 0) + WAY_MS;
      assert.ok(cost <= capacity + span * per_ms + 1e-6, `calls ${i} to ${j}: ${cost} units within ${span} ms`);
    }
  }
}

export function limits(stage: Stage): void {
  const { client: clients, receiver } = stage;
  const client = clients.acme;

  before(async () => {
    // Signing keys, connections, scripts: the first calls of a process take tens of milliseconds.
    const path = freshPath();
    const { id } = await client.create({ tasks: tasksFor(receiver.at(path, { delay_ms: 50 }), 100) });
    await client.ended(id, 'completed');
  });

  describe('spans at the receiver', () => {
    test('window: no span holds more, and none is left unused', async () => {
      const { name } = await makeLimiter(stage, 'window', { limit: 10, interval: 1 });
      const path = freshPath();
      const url = receiver.at(path, {});
      const began_ms = Date.now();
      const made = await Promise.all([
        client.create({ tasks: tasksFor(url, 20, { rate_limiter: name }) }),
        client.create({ tasks: tasksFor(url, 25, { rate_limiter: name }) }),
      ]);
      const calls = await receiver.heard(path, 45);
      for (const { id } of made) await client.ended(id, 'completed');
      assert.equal(calls.length, 45);
      checkSpans(calls, 10, 1_000);
      assert.ok(Date.now() - began_ms < 5_500, '45 at 10 a second take 4 s');
    });

    test('bucket, aligned: no second of the clock holds more', async () => {
      const { name } = await makeLimiter(stage, 'bucket', { limit: 8, interval: 1 });
      const path = freshPath();
      const { id } = await client.create({ tasks: tasksFor(receiver.at(path, {}), 30, { rate_limiter: name }) });
      await client.ended(id, 'completed');
      const at = times(receiver.to(path));
      const [first, last] = [Math.floor((at[0] ?? 0) / 1_000), Math.floor((at.at(-1) ?? 0) / 1_000)];
      // What comes right after an edge may have left before it, so a span begins a little later.
      for (let from = first; from <= last; from++) {
        for (let to = from; to <= last; to++) {
          const within = at.filter((one) => one - stalls.before(one) >= from * 1_000 + WAY_MS && one < (to + 1) * 1_000).length;
          assert.ok(within <= 8 * (to - from + 1), `${within} from second ${from} to ${to}`);
        }
      }
      assert.ok(last - first >= 3, '30 at 8 a second take 4 of them');
    });

    test('bucket of tokens: a burst, then the rate', async () => {
      const { name } = await makeLimiter(stage, 'bucket', { capacity: 5, refill_rate: 20, interval: 1 });
      const path = freshPath();
      const { id } = await client.create({ tasks: tasksFor(receiver.at(path, {}), 40, { rate_limiter: name }) });
      await client.ended(id, 'completed');
      checkRate(receiver.to(path), 5, 0.02);
      const at = times(receiver.to(path));
      const took_ms = (at.at(-1) ?? 0) - (at[0] ?? 0);
      assert.ok(took_ms < 2_500, `35 at 20 a second took ${took_ms} ms`);
    });

    test('leaky: drops leave evenly', async () => {
      const { name } = await makeLimiter(stage, 'leaky', { capacity: 1, drain_rate: 10, interval: 1 });
      const path = freshPath();
      const { id } = await client.create({ tasks: tasksFor(receiver.at(path, {}), 25, { rate_limiter: name }) });
      await client.ended(id, 'completed');
      checkRate(receiver.to(path), 1, 0.01);
    });

    test('points: tasks take what they cost', async () => {
      const { name } = await makeLimiter(stage, 'points', { capacity: 10, refill_rate: 40, interval: 1 });
      const path = freshPath();
      const url = receiver.at(path, {});
      const tasks = Array.from({ length: 30 }, (_, n) => ({
        target: { url, method: 'POST' },
        payload: { cost: 1 + (n % 7) },
        rate_limiter: name,
        points_cost: 1 + (n % 7),
      }));
      const { id } = await client.create({ tasks });
      await client.ended(id, 'completed');
      checkRate(receiver.to(path), 10, 0.04, ({ body }) => (JSON.parse(body.toString()) as { cost: number }).cost);
    });

    test('points: what the target says that it used is charged', async () => {
      const { name } = await makeLimiter(stage, 'points', { capacity: 10, refill_rate: 10, interval: 1 });
      const path = freshPath();
      const url = receiver.at(path, { headers: { 'x-points-used': '15' } });
      const { id } = await client.create({ tasks: tasksFor(url, 1, { rate_limiter: name }) });
      await client.ended(id, 'completed');
      const second = await client.create({ tasks: tasksFor(url, 1, { rate_limiter: name, points_cost: 5 }) });
      await client.ended(second.id, 'completed');
      const [a = 0, b = 0] = times(receiver.to(path));
      assert.ok(b - a >= 1_000 - WAY_MS, `with 5 points too few, 5 are there after a second: ${b - a} ms`);
    });

    test('concurrent: never more at a time', async () => {
      const { name } = await makeLimiter(stage, 'concurrent', { limit: 4 });
      const path = freshPath();
      const { id } = await client.create({ tasks: tasksFor(receiver.at(path, { delay_ms: 60 }), 40, { rate_limiter: name }) });
      await client.ended(id, 'completed');
      // Each takes 60 ms, so a fifth within 60 ms would be one too many.
      checkSpans(receiver.to(path), 4, 60 + WAY_MS - 2);
      const at = times(receiver.to(path));
      assert.ok((at.at(-1) ?? 0) - (at[0] ?? 0) < 1_500, 'ten rounds of 60 ms');
    });
  });

  test('a task alone is on its way within milliseconds', async (t) => {
    const { name } = await makeLimiter(stage, 'window', { limit: 1_000, interval: 1 });
    const path = freshPath();
    const url = receiver.at(path, {});
    const took = { free: [] as number[], limited: [] as number[] };
    for (let i = 0; i < 60; i++) {
      const limited = i % 2 === 0;
      const began_ms = Date.now();
      const { id } = await client.createTask({ target: { url, method: 'POST' }, ...(limited ? { rate_limiter: name } : {}) });
      await client.taskWhen(id, ({ status }) => status === 'completed');
      took[limited ? 'limited' : 'free'].push((receiver.to(path)[i]?.at_ms ?? 0) - began_ms);
    }
    const median = (list: number[]): number => [...list].sort((a, b) => a - b)[15] ?? 0;
    t.diagnostic(`median from the request to the call: ${median(took.limited)} ms with a limiter, ${median(took.free)} ms without`);
    assert.ok(median(took.limited) - median(took.free) < 25, `${median(took.limited)} ms`);
  });

  test('starts come in the order of the request, and every attempt takes from the limiter', async () => {
    const { name } = await makeLimiter(stage, 'window', { limit: 5, interval: 1 });
    const path = freshPath();
    const url = receiver.at(path, { status: 500 }, {});
    const { id } = await client.create({ tasks: tasksFor(url, 10, { rate_limiter: name, retry: AT_ONCE }) });
    await client.ended(id, 'completed');
    const calls = receiver.to(path);
    assert.equal(calls.length, 20);
    checkSpans(calls, 5, 1_000);
    const firsts = calls.filter(({ attempt }) => attempt === 1).map(({ body }) => (JSON.parse(body.toString()) as { n: number }).n);
    // Those of one grant are sent at once.
    assert.deepEqual(
      firsts.map((n) => Math.floor(n / 5)),
      [0, 0, 0, 0, 0, 1, 1, 1, 1, 1],
    );
    assert.deepEqual(
      calls.map(({ attempt }) => attempt).slice(0, 10),
      Array.from({ length: 10 }, () => 1),
      'a retry goes to the end of the line',
    );
  });

  test('a large batch that is cancelled holds up nobody behind it', async (t) => {
    const { name } = await makeLimiter(stage, 'window', { limit: 5, interval: 1 });
    const [path, behind] = [freshPath(), freshPath()];
    const url = receiver.at(path, {});
    const big = await client.create({ tasks: tasksFor(url, 8_000, { rate_limiter: name }) });
    const live = await client.create({ tasks: tasksFor(receiver.at(behind, {}), 1, { rate_limiter: name }) });
    await receiver.heard(path, 5);
    await client.cancel(big.id);
    const cancelled_ms = performance.now();
    await client.ended(live.id, 'completed', 10_000);
    t.diagnostic(`started ${Math.round(performance.now() - cancelled_ms)} ms after the cancel`);
    const { stats } = await client.batch(big.id);
    assert.equal(stats.total, (stats.completed ?? 0) + (stats.failed ?? 0) + (stats.cancelled ?? 0));
    assert.ok(receiver.to(path).length <= 10);
  });

  test('what waits too long fails without having run', async () => {
    const { name } = await makeLimiter(stage, 'window', { limit: 2, interval: 600 }, { timeouts: { queue_timeout: 1 } });
    const path = freshPath();
    const { id } = await client.create({ tasks: tasksFor(receiver.at(path, {}), 10, { rate_limiter: name, ...ONCE }) });
    await client.ended(id, 'failed', 10_000);
    const tasks = await client.allTasks(id);
    assert.equal(tasks.filter(({ status }) => status === 'completed').length, 2);
    const failed = tasks.filter(({ status }) => status === 'failed');
    assert.deepEqual(new Set(failed.map(({ result }) => result?.error?.code)), new Set(['queue_timeout']));
    assert.equal(failed.length, 8);
    assert.equal(receiver.to(path).length, 2);
  });

  test('a paused limiter starts nothing, a deleted one limits nothing', async () => {
    const { name, id: limiter } = await makeLimiter(stage, 'concurrent', { limit: 1 });
    assert.equal((await client.ask('POST', `/v1/rate-limiters/${limiter}/pause`, { body: {} })).status, 200);
    const path = freshPath();
    const url = receiver.at(path, { hold: true });
    const { id } = await client.create({ tasks: tasksFor(url, 50, { rate_limiter: name }) });
    assert.equal((await client.ask('POST', `/v1/rate-limiters/${limiter}/resume`, { body: {} })).status, 200);
    await receiver.heard(path, 1);
    assert.equal(receiver.to(path).length, 1);
    assert.equal((await client.ask('DELETE', `/v1/rate-limiters/${limiter}`)).status, 200);
    await receiver.heard(path, 50);
    receiver.release(path);
    await client.ended(id, 'completed');
  });

  test('Retry-After closes a limiter that is set so, and the attempt does not count', async () => {
    const { name } = await makeLimiter(stage, 'window', { limit: 100, interval: 1 }, { cooldown: 'limiter' });
    const path = freshPath();
    const url = receiver.at(path, { status: 429, headers: { 'retry-after': '1' } }, {});
    const { id } = await client.createTask({ target: { url, method: 'POST' }, rate_limiter: name, ...ONCE });
    await receiver.heard(path, 1);
    await client.taskWhen(id, ({ status }) => status === 'queued');
    const other = freshPath();
    const behind = await client.createTask({ target: { url: receiver.at(other, {}), method: 'POST' }, rate_limiter: name });
    await client.taskWhen(behind.id, ({ status }) => status === 'completed');
    await client.taskWhen(id, ({ status }) => status === 'completed');
    const [first, second] = receiver.to(path);
    assert.deepEqual([first?.attempt, second?.attempt], [1, 1]);
    for (const call of [second, receiver.to(other)[0]]) {
      assert.ok((call?.at_ms ?? 0) - (first?.at_ms ?? 0) >= 1_000 - WAY_MS, 'the limiter was closed');
    }
  });

  test('a retry by hand takes from the limiter that the task was made for', async () => {
    const { name } = await makeLimiter(stage, 'concurrent', { limit: 1 });
    const path = freshPath();
    const url = receiver.at(path, { status: 400 }, { hold: true });
    const { id } = await client.createTask({ target: { url, method: 'POST' }, rate_limiter: name, ...ONCE });
    await client.taskWhen(id, ({ status }) => status === 'failed');
    assert.equal((await client.ask('POST', `/v1/tasks/${id}/retry`, {})).status, 200);
    await receiver.heard(path, 2);
    const behind = freshPath();
    const other = await client.createTask({ target: { url: receiver.at(behind, {}), method: 'POST' }, rate_limiter: name });
    assert.equal(receiver.to(behind).length, 0, 'its slot is taken');
    receiver.release(path);
    await client.taskWhen(other.id, ({ status }) => status === 'completed');
  });
}
