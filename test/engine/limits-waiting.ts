// Tasks that wait for their limiters: their order, their deadlines, and what becomes of them when they, their batch or their
// limiter change meanwhile.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import type { ReceivedCall } from '../helpers/receiver.ts';
import { until } from '../helpers/redis.ts';
import { changeLimiter, checkSpans, makeLimiter, numbersOf, times, usageOf, WAY_MS } from './limiting.ts';
import { AT_ONCE, freshPath, inSeconds, ONCE, type Stage, tasksFor } from './stage.ts';

/** Most of the time is waited for. */
const SIDE_BY_SIDE = { concurrency: 6 } as const;
/** A change acts on what waits within a second; what follows goes over the network, on a machine that others use too. */
const ACTS_MS_MAX = 5_000;
/** So few that those which start at once are done before the first is free again. */
const HARDLY = { limit: 2, interval: 3_600 };

export function limitsWaiting(stage: Stage): void {
  const { client: clients, receiver } = stage;
  const client = clients.acme;

  const errorsOf = async (batch: string): Promise<(string | undefined)[]> =>
    (await client.allTasks(batch)).map(({ status, result }) => (status === 'failed' ? result?.error?.code : status));
  const count = (list: readonly (string | undefined)[], what: string): number => list.filter((one) => one === what).length;
  const queuedIs = (id: string, queued: number): Promise<void> =>
    until(async () => (await usageOf(client, id)).queued === queued, ACTS_MS_MAX, `${queued} to wait at ${id}`);

  describe('order', SIDE_BY_SIDE, () => {
    test('one at a time, over batches and single tasks: exactly in the order in which they came', async () => {
      const { name } = await makeLimiter(client, 'concurrent', { limit: 1 });
      const path = freshPath();
      const url = receiver.at(path, {});
      const numbered = (from: number, count: number): object[] =>
        Array.from({ length: count }, (_, i) => ({ target: { url, method: 'POST' }, payload: { n: from + i }, rate_limiter: name }));
      const first = await client.create({ tasks: numbered(0, 20), options: { hold: true } });
      await client.create({ tasks: numbered(20, 20) });
      for (let n = 40; n < 45; n++) await client.createTask(numbered(n, 1)[0]);
      await client.add(first.id, { tasks: numbered(45, 15) });
      await client.release(first.id);
      await client.ended(first.id, 'completed');
      assert.deepEqual(
        numbersOf(receiver.to(path)),
        Array.from({ length: 60 }, (_, n) => n),
      );
    });

    test('tasks of other limiters, and those of none, do not wait in the same line', async () => {
      const slow = await makeLimiter(client, 'window', HARDLY);
      const one = await makeLimiter(client, 'concurrent', { limit: 1 });
      const fast = await makeLimiter(client, 'leaky', { capacity: 5, drain_rate: 20, interval: 1 });
      const path = freshPath();
      const url = receiver.at(path, {});
      const limiters = [slow.name, one.name, fast.name, undefined];
      const tasks = Array.from({ length: 80 }, (_, n) => ({
        target: { url, method: 'POST' },
        payload: { n },
        ...(limiters[n % 4] === undefined ? {} : { rate_limiter: limiters[n % 4] }),
      }));
      const { id } = await client.create({ tasks });
      await client.batchWhen(id, ({ stats }) => stats.completed === 62);
      const by = (kind: number): ReceivedCall[] => receiver.to(path).filter((call) => (numbersOf([call])[0] ?? 0) % 4 === kind);
      assert.deepEqual(
        [0, 1, 2, 3].map((kind) => by(kind).length),
        [2, 20, 20, 20],
      );
      assert.deepEqual(
        numbersOf(by(1)),
        Array.from({ length: 20 }, (_, i) => 4 * i + 1),
      );
      await queuedIs(slow.id, 18);
      await changeLimiter(client, slow.id, 'DELETE');
      await client.ended(id, 'completed');
    });

    test('execute_after: a task comes to its limiter when it is due', async () => {
      const { name, id: limiter } = await makeLimiter(client, 'concurrent', { limit: 1 });
      const path = freshPath();
      const url = receiver.at(path, {});
      const task = (n: number, more: object): object => ({ target: { url, method: 'POST' }, payload: { n }, rate_limiter: name, ...more });
      const due_ms = Date.now() + 1_200;
      const { id } = await client.create({
        tasks: [task(0, { execute_after: new Date(due_ms).toISOString() }), task(1, {}), task(2, {})],
      });
      assert.ok((await usageOf(client, limiter)).queued <= 2, 'what is not due does not wait there');
      await client.ended(id, 'completed');
      assert.deepEqual(numbersOf(receiver.to(path)), [1, 2, 0]);
      assert.ok((receiver.to(path)[2]?.at_ms ?? 0) >= due_ms - WAY_MS);
    });
  });

  describe('deadlines', SIDE_BY_SIDE, () => {
    test('validity_timeout counts from when a task first became due, over all its attempts', async () => {
      const { name } = await makeLimiter(client, 'window', HARDLY, { timeouts: { queue_timeout: 100, validity_timeout: 2 } });
      const path = freshPath();
      const began_ms = Date.now();
      const url = receiver.at(path, { status: 500 });
      const { id } = await client.create({ tasks: tasksFor(url, 5, { rate_limiter: name, retry: AT_ONCE }) });
      await client.ended(id, 'failed');
      assert.deepEqual(
        await errorsOf(id),
        Array.from({ length: 5 }, () => 'validity_timeout'),
      );
      assert.ok(Date.now() - began_ms >= 2_000 - WAY_MS);
      assert.deepEqual(
        (await client.allTasks(id)).map(({ attempts }) => attempts),
        [1, 1, 0, 0, 0],
      );
      assert.equal(receiver.to(path).length, 2);
    });

    test('validity_timeout does not wait for a retry that would come too late, nor for what the limiter no longer asks', async () => {
      const timeouts = { validity_timeout: 2 };
      const bounded = await makeLimiter(client, 'window', HARDLY, { timeouts });
      const deleted = await makeLimiter(client, 'window', HARDLY, { timeouts });
      const [path, slow] = [freshPath(), freshPath()];
      const later = { max_retries: 1, backoff: 'fixed', delay: 3_600 };
      const held = receiver.at(slow, { status: 500, hold: true });
      const other = await client.create({ tasks: tasksFor(held, 1, { rate_limiter: deleted.name, retry: later }) });
      const began_ms = Date.now();
      const failing = receiver.at(path, { status: 500 });
      const { id } = await client.create({ tasks: tasksFor(failing, 1, { rate_limiter: bounded.name, retry: later }) });
      await receiver.heard(slow, 1);
      await changeLimiter(client, deleted.id, 'DELETE');
      receiver.release(slow);
      await client.ended(id, 'failed');
      assert.ok(Date.now() - began_ms >= 2_000 - WAY_MS, 'nor does it come sooner');
      const [task] = await client.allTasks(id);
      assert.deepEqual([task?.attempts, task?.result?.error?.code], [1, 'validity_timeout']);
      assert.equal(receiver.to(path).length, 1);
      assert.equal((await usageOf(client, bounded.id)).days.at(-1)?.expired, 1);
      const [waits] = await client.allTasks(other.id);
      assert.deepEqual([waits?.status, waits?.attempts], ['queued', 1]);
      await client.cancel(other.id);
    });

    test('what expires between its grant and its start has taken nothing', async () => {
      const { name, id: limiter } = await makeLimiter(client, 'window', { limit: 1_000, interval: 600 });
      const path = freshPath();
      const url = receiver.at(path, {});
      await changeLimiter(client, limiter, 'pause');
      const times_ms = Array.from({ length: 100 }, (_, n) => Date.now() + 600 + 2 * n);
      const tasks = times_ms.map((ms) => ({ target: url, rate_limiter: name, valid_until: new Date(ms).toISOString() }));
      const { id } = await client.create({ tasks });
      await setTimeout((times_ms[40] ?? 0) - Date.now());
      await changeLimiter(client, limiter, 'resume');
      await client.ended(id, 'failed');
      const started = receiver.to(path).length;
      await until(
        async () => (await usageOf(client, limiter)).available === 1_000 - started,
        ACTS_MS_MAX,
        `${started} to be used of 1,000`,
      );
    });

    test('a task’s own valid_until stands in place of validity_timeout', async () => {
      const { name } = await makeLimiter(client, 'window', { limit: 1, interval: 3_600 }, { timeouts: { validity_timeout: 1 } });
      const path = freshPath();
      const url = receiver.at(path, {});
      await client.create({ tasks: tasksFor(url, 1, { rate_limiter: name }) });
      const valid_until = inSeconds(2.5);
      const { id } = await client.create({
        tasks: [...tasksFor(url, 2, { rate_limiter: name, valid_until }), ...tasksFor(url, 2, { rate_limiter: name })],
      });
      await client.batchWhen(id, ({ stats }) => stats.failed === 2);
      assert.ok(Date.now() < Date.parse(valid_until), 'those without one go first, though they stand behind');
      assert.deepEqual((await errorsOf(id)).slice(2), ['validity_timeout', 'validity_timeout']);
      await client.ended(id, 'failed');
      assert.ok(Date.now() >= Date.parse(valid_until) - WAY_MS);
      assert.deepEqual((await errorsOf(id)).slice(0, 2), ['expired', 'expired']);
      assert.equal(receiver.to(path).length, 1);
    });

    test('time in which a limiter is paused does not count for queue_timeout; the pause ends by itself', async () => {
      const { name, id: limiter } = await makeLimiter(client, 'window', { limit: 3, interval: 3_600 }, { timeouts: { queue_timeout: 1 } });
      const until_text = inSeconds(2.5);
      await changeLimiter(client, limiter, 'pause', { until: until_text });
      const path = freshPath();
      const { id } = await client.create({ tasks: tasksFor(receiver.at(path, {}), 5, { rate_limiter: name }) });
      await client.ended(id, 'failed');
      const errors = await errorsOf(id);
      assert.deepEqual([count(errors, 'completed'), count(errors, 'queue_timeout')], [3, 2]);
      assert.ok((times(receiver.to(path))[0] ?? 0) >= Date.parse(until_text) - WAY_MS);
      const usage = await usageOf(client, limiter);
      assert.deepEqual([usage.queued, usage.granted_last_minute, usage.days.at(-1)?.expired], [0, 3, 2]);
    });

    test('timeouts that are changed act on what waits', async () => {
      const { name, id: limiter } = await makeLimiter(client, 'window', HARDLY);
      const { id } = await client.create({ tasks: tasksFor(receiver.at(freshPath(), {}), 6, { rate_limiter: name }) });
      await client.batchWhen(id, ({ stats }) => stats.completed === 2);
      await changeLimiter(client, limiter, 'PATCH', { timeouts: { queue_timeout: 1 } });
      await client.ended(id, 'failed');
      assert.equal(count(await errorsOf(id), 'queue_timeout'), 4);
    });
  });

  describe('cancelled and over', SIDE_BY_SIDE, () => {
    test('a task that is cancelled while it waits never runs, and takes nothing', async () => {
      const { name, id: limiter } = await makeLimiter(client, 'concurrent', { limit: 1 });
      const path = freshPath();
      const url = receiver.at(path, { hold: true });
      const made: string[] = [];
      for (const [task] of [0, 1, 2].map(() => tasksFor(url, 1, { rate_limiter: name }))) made.push((await client.createTask(task)).id);
      await receiver.heard(path, 1);
      const [, second = ''] = made;
      assert.equal((await client.ask('POST', `/v1/tasks/${second}/cancel`)).status, 200);
      receiver.release(path);
      for (const id of [made[0] ?? '', made[2] ?? '']) await client.taskWhen(id, ({ status }) => status === 'completed');
      assert.equal((await client.task(second)).status, 'cancelled');
      assert.deepEqual(
        receiver.to(path).map(({ id }) => id),
        [made[0], made[2]],
      );
      await until(async () => (await usageOf(client, limiter)).available === 1, ACTS_MS_MAX, 'the slot to be free');
    });

    test('a batch that was cancelled and deleted leaves nothing behind; neither does one that expired', async () => {
      const { name, id: limiter } = await makeLimiter(client, 'window', HARDLY);
      const url = receiver.at(freshPath(), {});
      const some = (count: number): object[] => tasksFor(url, count, { rate_limiter: name });
      const first = await client.create({ tasks: some(50) });
      const made_ms = performance.now();
      const brief = await client.create({ tasks: some(30), options: { expiration: 1.5 / 3_600 } });
      const live = await client.create({ tasks: some(3) });
      await client.batchWhen(first.id, ({ stats }) => stats.completed === 2);
      await queuedIs(limiter, 81);
      await client.cancel(first.id);
      await queuedIs(limiter, 33);
      await client.batchWhen(first.id, ({ status, stats }) => status === 'cancelled' && stats.pending === 0);
      assert.equal((await client.ask('DELETE', `/v1/batches/${first.id}`)).status, 200);
      await client.batchWhen(brief.id, ({ status }) => status === 'expired');
      // Where nobody knows that something will be due, it is found after 5 s.
      assert.ok(performance.now() - made_ms < 4_500, 'it expires when it is to');
      assert.deepEqual(new Set(await errorsOf(brief.id)), new Set(['batch_expired']));
      await queuedIs(limiter, 3);
      await changeLimiter(client, limiter, 'reset');
      await client.batchWhen(live.id, ({ stats }) => stats.completed === 2);
      await queuedIs(limiter, 1);
    });

    test('a round of failed tasks goes through the limiter again', async () => {
      const { name } = await makeLimiter(client, 'window', { limit: 6, interval: 1 });
      const path = freshPath();
      const url = receiver.at(path, { status: 500 }, {});
      const { id } = await client.create({ tasks: tasksFor(url, 12, { rate_limiter: name, ...ONCE }) });
      await client.ended(id, 'failed');
      assert.equal((await client.ask('POST', `/v1/batches/${id}/retry`)).status, 200);
      await client.ended(id, 'completed');
      assert.equal(receiver.to(path).length, 24);
      checkSpans(receiver.to(path), 6, 1_000);
    });
  });

  describe('the limiter changes', SIDE_BY_SIDE, () => {
    test('a larger limit lets what waits start, a smaller one lets nothing start until there is room', async () => {
      const { name, id: limiter } = await makeLimiter(client, 'concurrent', { limit: 2 });
      const path = freshPath();
      const url = receiver.at(path, { hold: true });
      const { id } = await client.create({ tasks: tasksFor(url, 14, { rate_limiter: name }) });
      await receiver.heard(path, 2);
      await changeLimiter(client, limiter, 'PATCH', { config: { limit: 5 } });
      await receiver.heard(path, 5, ACTS_MS_MAX);
      await changeLimiter(client, limiter, 'PATCH', { config: { limit: 1 } });
      receiver.release(path, true);
      await receiver.heard(path, 6, ACTS_MS_MAX);
      assert.deepEqual([receiver.held(path).length, (await usageOf(client, limiter)).queued], [1, 8]);
      receiver.at(path, {});
      receiver.release(path);
      await client.ended(id, 'completed');
    });

    test('a window that is widened counts what it let start before', async () => {
      const { name, id: limiter } = await makeLimiter(client, 'window', { limit: 3, interval: 3_600 });
      const path = freshPath();
      const { id } = await client.create({ tasks: tasksFor(receiver.at(path, {}), 10, { rate_limiter: name }) });
      await receiver.heard(path, 3);
      await changeLimiter(client, limiter, 'PATCH', { config: { limit: 7, interval: 3_600 } });
      await client.batchWhen(id, ({ stats }) => stats.completed === 7);
      await queuedIs(limiter, 3);
      assert.equal((await usageOf(client, limiter)).available, 0);
      await changeLimiter(client, limiter, 'PATCH', { config: { limit: 7, interval: 1 } });
      await client.ended(id, 'completed');
      assert.equal(receiver.to(path).length, 10);
    });

    test('points: a task that costs more than there is room for since a change does not block the line', async () => {
      const { name, id: limiter } = await makeLimiter(client, 'points', { capacity: 10, refill_rate: 1, interval: 3_600 });
      const path = freshPath();
      const url = receiver.at(path, {});
      const { id } = await client.create({
        tasks: [
          ...tasksFor(url, 1, { rate_limiter: name, points_cost: 8 }),
          ...tasksFor(url, 1, { rate_limiter: name, points_cost: 9 }),
          ...tasksFor(url, 1, { rate_limiter: name }),
        ],
      });
      await receiver.heard(path, 1);
      assert.equal((await usageOf(client, limiter)).queued, 2, 'the dear one is first, so the cheap one waits too');
      await changeLimiter(client, limiter, 'PATCH', { config: { capacity: 2, refill_rate: 20, interval: 1 } });
      await client.ended(id, 'completed');
    });

    test('reset forgets what was used, but no slot that is taken', async () => {
      const window = await makeLimiter(client, 'window', HARDLY);
      const slots = await makeLimiter(client, 'concurrent', { limit: 2 });
      const [path, held] = [freshPath(), freshPath()];
      const { id } = await client.create({ tasks: tasksFor(receiver.at(path, {}), 4, { rate_limiter: window.name }) });
      const other = await client.create({ tasks: tasksFor(receiver.at(held, { hold: true }), 4, { rate_limiter: slots.name }) });
      await Promise.all([receiver.heard(path, 2), receiver.heard(held, 2)]);
      await changeLimiter(client, window.id, 'reset');
      await changeLimiter(client, slots.id, 'reset');
      await client.ended(id, 'completed');
      const { queued, running } = await usageOf(client, slots.id);
      assert.deepEqual([receiver.held(held).length, queued, running], [2, 2, 2]);
      receiver.release(held);
      await client.ended(other.id, 'completed');
    });

    test('a limiter of the same name takes over nothing of a deleted one', async () => {
      const { name, id: limiter } = await makeLimiter(client, 'window', HARDLY);
      const path = freshPath();
      const url = receiver.at(path, {});
      const { id } = await client.create({ tasks: tasksFor(url, 40, { rate_limiter: name }) });
      await receiver.heard(path, 2);
      await changeLimiter(client, limiter, 'pause', {});
      await changeLimiter(client, limiter, 'DELETE');
      const heir = await client.ask('POST', '/v1/rate-limiters', { body: { name, type: 'window', config: { limit: 1, interval: 3_600 } } });
      assert.equal(heir.status, 201, heir.text);
      await client.ended(id, 'completed');
      const { granted_last_minute, available } = await usageOf(client, (heir.json as { id: string }).id);
      assert.deepEqual([granted_last_minute, available], [0, 1]);
      const after = await usageOf(client, limiter);
      assert.deepEqual([after.queued, after.available, after.next_available_at], [0, null, null]);
    });

    test('Retry-After of one task closes a limiter for all that wait, and that time does not count for queue_timeout', async () => {
      const { name } = await makeLimiter(client, 'concurrent', { limit: 1 }, { cooldown: 'limiter', timeouts: { queue_timeout: 4 } });
      const path = freshPath();
      const url = receiver.at(path, { status: 503, headers: { 'retry-after': '5' } }, {});
      const ready = receiver.at(freshPath(), {});
      const { id } = await client.create({
        tasks: [...tasksFor(url, 1, { rate_limiter: name, ...ONCE }), ...tasksFor(ready, 3, { rate_limiter: name, ...ONCE })],
      });
      await client.ended(id, 'completed');
      const others = receiver.to(new URL(ready).pathname);
      const [first, second] = receiver.to(path);
      assert.ok((times(others)[0] ?? 0) - (first?.at_ms ?? 0) >= 5_000 - WAY_MS);
      assert.equal(second?.attempt, 1, 'the attempt was not counted');
    });
  });
}
