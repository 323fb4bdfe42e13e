// Rate limiters seen from outside: tasks through a real engine to a real receiver, where the times of arrival are held
// against what each kind promises, over every span.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { until } from '../helpers/redis.ts';
import { checkAligned, checkRate, checkSpans, lengthOf, makeLimiter, numbersOf, times, usageOf, WAY_MS } from './limiting.ts';
import { AT_ONCE, freshPath, ONCE, type Stage, tasksFor } from './stage.ts';

/** Most of the time is waited for. */
const SIDE_BY_SIDE = { concurrency: 4 } as const;
/** What was used is told to a limiter after the task has ended. */
const CHARGED_MS_MAX = 5_000;

/** Every kind, held against what it promises. */
export function limitsOfKinds(stage: Stage): void {
  const { client: clients, receiver } = stage;
  const client = clients.acme;

  warmUp(stage);

  describe('spans at the receiver', SIDE_BY_SIDE, () => {
    test('window: no span holds more, and none is left unused', async () => {
      const { name } = await makeLimiter(client, 'window', { limit: 10, interval: 1 });
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
      assert.ok(Date.now() - began_ms < 10_000, '45 at 10 a second take 4 s');
    });

    test('bucket, aligned: no second of the clock holds more', async () => {
      const { name } = await makeLimiter(client, 'bucket', { limit: 8, interval: 1 });
      const path = freshPath();
      const { id } = await client.create({ tasks: tasksFor(receiver.at(path, {}), 30, { rate_limiter: name }) });
      await client.ended(id, 'completed');
      checkAligned(receiver.to(path), 8, 1_000);
      assert.ok(lengthOf(receiver.to(path)) > 2_000 - WAY_MS, '30 at 8 a second take 4 seconds of the clock');
    });

    test('bucket of tokens: a burst, then the rate', async () => {
      const { name } = await makeLimiter(client, 'bucket', { capacity: 5, refill_rate: 20, interval: 1 });
      const path = freshPath();
      const { id } = await client.create({ tasks: tasksFor(receiver.at(path, {}), 40, { rate_limiter: name }) });
      await client.ended(id, 'completed');
      checkRate(receiver.to(path), 5, 0.02);
      const took_ms = lengthOf(receiver.to(path));
      assert.ok(took_ms < 6_000, `35 at 20 a second took ${took_ms} ms`);
    });

    test('leaky: drops leave evenly', async () => {
      const { name } = await makeLimiter(client, 'leaky', { capacity: 1, drain_rate: 10, interval: 1 });
      const path = freshPath();
      const { id } = await client.create({ tasks: tasksFor(receiver.at(path, {}), 25, { rate_limiter: name }) });
      await client.ended(id, 'completed');
      checkRate(receiver.to(path), 1, 0.01);
    });

    test('points: tasks take what they cost', async () => {
      const { name } = await makeLimiter(client, 'points', { capacity: 10, refill_rate: 40, interval: 1 });
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
      const { name, id: limiter } = await makeLimiter(client, 'points', { capacity: 10, refill_rate: 10, interval: 1 });
      const path = freshPath();
      const url = receiver.at(path, { headers: { 'x-points-used': '15' } });
      const { id } = await client.create({ tasks: tasksFor(url, 1, { rate_limiter: name }) });
      await client.ended(id, 'completed');
      await until(async () => (await usageOf(client, limiter)).available === 0, CHARGED_MS_MAX, 'fifteen points to be charged');
      const second = await client.create({ tasks: tasksFor(url, 1, { rate_limiter: name, points_cost: 5 }) });
      await client.ended(second.id, 'completed');
      const [a = 0, b = 0] = times(receiver.to(path));
      assert.ok(b - a >= 1_000 - WAY_MS, `with 5 points too few, 5 are there after a second: ${b - a} ms`);
    });

    test('points: each task is charged what it has used, once', async () => {
      const { name, id: limiter } = await makeLimiter(client, 'points', { capacity: 1_000, refill_rate: 1, interval: 2_592_000 });
      const url = receiver.at(freshPath(), { headers: { 'x-points-used': '9' } });
      const { id } = await client.create({ tasks: tasksFor(url, 40, { rate_limiter: name, points_cost: 10 }) });
      await client.ended(id, 'completed');
      await until(async () => (await usageOf(client, limiter)).available === 640, CHARGED_MS_MAX, 'forty times nine to be charged');
    });

    test('concurrent: never more at a time', async () => {
      const { name } = await makeLimiter(client, 'concurrent', { limit: 4 });
      const path = freshPath();
      const { id } = await client.create({ tasks: tasksFor(receiver.at(path, { delay_ms: 60 }), 40, { rate_limiter: name }) });
      await client.ended(id, 'completed');
      // Each takes 60 ms, so a fifth within 60 ms would be one too many.
      checkSpans(receiver.to(path), 4, 60 + WAY_MS - 2);
      assert.ok(lengthOf(receiver.to(path)) < 3_000, 'ten rounds of 60 ms');
    });
  });
}

/** Whoever looks around without being told does so after this long at the earliest. */
const LOOK_MS = 2_000;

/** Signing keys, connections, scripts: the first calls of a process take tens of milliseconds. */
function warmUp({ client, receiver }: Stage): void {
  before(async () => {
    const { id } = await client.acme.create({ tasks: tasksFor(receiver.at(freshPath(), { delay_ms: 50 }), 100) });
    await client.acme.ended(id, 'completed');
  });
}

export function limits(stage: Stage): void {
  const { client: clients, receiver } = stage;
  const client = clients.acme;

  warmUp(stage);

  test('a task alone goes on its way at once, and waits for nobody to look around', async (t) => {
    const { name } = await makeLimiter(client, 'window', { limit: 1_000, interval: 1 });
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
    assert.ok(median(took.limited) < LOOK_MS, `${median(took.limited)} ms`);
  });

  test('starts come in the order of the request, and every attempt takes from the limiter', async () => {
    const { name } = await makeLimiter(client, 'window', { limit: 5, interval: 1 });
    const path = freshPath();
    const url = receiver.at(path, { status: 500 }, {});
    const { id } = await client.create({ tasks: tasksFor(url, 10, { rate_limiter: name, retry: AT_ONCE }) });
    await client.ended(id, 'completed');
    const calls = receiver.to(path);
    assert.equal(calls.length, 20);
    checkSpans(calls, 5, 1_000);
    const firsts = numbersOf(calls.filter(({ attempt }) => attempt === 1));
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
    const { name } = await makeLimiter(client, 'window', { limit: 5, interval: 1 });
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
    const { name } = await makeLimiter(client, 'window', { limit: 2, interval: 600 }, { timeouts: { queue_timeout: 1 } });
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
    const { name, id: limiter } = await makeLimiter(client, 'concurrent', { limit: 1 });
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
    const { name } = await makeLimiter(client, 'window', { limit: 100, interval: 1 }, { cooldown: 'limiter' });
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
    const { name } = await makeLimiter(client, 'concurrent', { limit: 1 });
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
