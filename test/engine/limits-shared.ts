// One limiter, two engines: together they never do more than it allows, and what one had when it was killed comes back.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { api } from '../helpers/api.ts';
import { type Engine, startEngine, TOKENS } from '../helpers/engine.ts';
import { startReceiver } from '../helpers/receiver.ts';
import { until } from '../helpers/redis.ts';
import { changeLimiter, checkSpans, makeLimiter, shareOf, usageOf, WRITES } from './limiting.ts';
import { allEnded, audit, type Load } from './load.ts';
import { freshPath, tasksFor } from './stage.ts';

/** With the timers as they are in production. */
const SLOTS_BACK_MS_MAX = 15_000;
/** About as long as a start may be put off. */
const STILL_MS = 700;
const AHEAD_MS = 30;
/**
 * Starts that are late, as those of a busy machine are, count from when they were made, and the engine says so. One that is stopped
 * before it has said it is believed to have been in time. What it starts from before is late by all the time it stood still.
 */
const UNTOLD_MS = STILL_MS / 4;
const RETRY = { max_retries: 5, backoff: 'fixed', delay: 0.1 };

/** `seconds`: how long the rates are tried. The engines are `redis_url`'s. */
export async function limitsShared(redis_url: string, seconds: number): Promise<void> {
  const receiver = await startReceiver();
  const [one, other] = await Promise.all([startEngine({ ...WRITES, redis_url }), startEngine({ ...WRITES, redis_url })]);
  const clients = [one, other].map((engine) => api(engine, TOKENS.acme));
  const [client, second] = clients;
  assert.ok(client !== undefined && second !== undefined);

  /** The same number of tasks for every batch; they spread over the partitions, and so over the engines. */
  const createLimited = async (batches: number, tasks_each: number, name: string, path = freshPath()): Promise<Load> => {
    const tasks = tasksFor(receiver.url + path, tasks_each, { rate_limiter: name, retry: RETRY });
    const made = await Promise.all(Array.from({ length: batches }, (_, i) => clients[i % clients.length]?.create({ tasks })));
    return { path, batches: made.map((batch) => batch?.id ?? ''), tasks: batches * tasks_each };
  };

  /** The first calls of a process take tens of milliseconds. */
  const warm = async (): Promise<void> => {
    const { name } = await makeLimiter(client, 'window', { limit: 1_000, interval: 1 });
    await allEnded(client, await createLimited(32, 20, name), 30_000);
  };

  before(warm);

  for (const rate of [100, 1_000]) {
    test(`two engines share ${rate} starts a second`, async (t) => {
      const { name } = await makeLimiter(client, 'window', { limit: rate, interval: 1 });
      const load = await createLimited(20, (rate * seconds) / 20, name);
      await allEnded(client, load, 60_000);
      checkSpans(receiver.to(load.path), rate, 1_000);
      assert.equal((await audit(client, receiver, load)).repeated_calls, 0);
      const share = shareOf(receiver.to(load.path), rate, 1_000);
      t.diagnostic(`${(share * 100).toFixed(1)} % of what is allowed was used`);
      // How much it is, a bench tells; here others may have the machine.
      assert.ok(share > 0.2, `${share} of what is allowed`);
    });
  }

  test('kill -9 of an engine that holds slots: never more than the limit, slots back within 15 s, all done', async (t) => {
    const limit = 32;
    const { name, id } = await makeLimiter(client, 'concurrent', { limit });
    const path = freshPath();
    receiver.at(path, { hold: true });
    const load = await createLimited(96, 1, name, path);
    await receiver.heard(path, limit);
    assert.equal((await usageOf(client, id)).running, limit);
    await other.kill9();
    clients.pop();
    const killed_ms = performance.now();
    const gone = (): number => receiver.to(path).filter((call) => call.gone).length;
    await until(() => gone() > 0, 5_000, 'the connections of the dead to close');
    await until(() => receiver.held(path).length >= limit, SLOTS_BACK_MS_MAX, 'as many to run as before');
    const took_ms = Math.round(performance.now() - killed_ms);
    const lost = gone();
    t.diagnostic(`${lost} of ${limit} slots were lost, all were in use again ${took_ms} ms after the kill`);
    assert.ok(lost < limit, 'both engines had some');
    while (receiver.to(path).length < load.tasks + lost) {
      assert.ok(receiver.held(path).length <= limit, `${receiver.held(path).length} at a time`);
      const heard = receiver.to(path).length;
      receiver.release(path, true);
      await receiver.heard(path, heard + 1);
    }
    receiver.release(path);
    await allEnded(client, load, 30_000);
    assert.equal((await audit(client, receiver, load)).repeated_calls, lost);
    const { running, queued, available } = await usageOf(client, id);
    assert.deepEqual([running, queued, available], [0, 0, limit]);
  });

  /** In place of the one that was killed; it ends with its test. */
  const startThird = async (): Promise<Engine> => {
    const third = await startEngine({ ...WRITES, redis_url });
    clients[1] = api(third, TOKENS.acme);
    await warm();
    return third;
  };

  test('an engine that stood still starts nothing that it was let start before', async () => {
    const third = await startThird();
    const [limit, rounds] = [96, 3];
    const { name } = await makeLimiter(client, 'window', { limit, interval: 1 });
    const load = await createLimited(32, (limit * 8) / 32, name);
    for (let round = 1; round <= rounds; round++) {
      const calls = await receiver.heard(load.path, limit * 2 * round + 5);
      // An interval after a burst is the next one. Its grants are in the engine by then: they come ahead of their time.
      const next_ms = (calls.at(-1)?.at_ms ?? 0) + 1_000 - AHEAD_MS / 2 - Date.now();
      await new Promise((resolve) => setTimeout(resolve, next_ms));
      third.signal('SIGSTOP');
      await new Promise((resolve) => setTimeout(resolve, STILL_MS + 200 * round));
      third.signal('SIGCONT');
    }
    await allEnded(client, load, 60_000);
    clients.pop();
    checkSpans(receiver.to(load.path), limit, 1_000, UNTOLD_MS);
  });

  test('what the killed one had taken of a rate is not given twice', async () => {
    const third = await startThird();
    const { name, id } = await makeLimiter(client, 'window', { limit: 20, interval: 1 });
    const load = await createLimited(16, 8, name);
    await receiver.heard(load.path, 45);
    await third.kill9();
    clients.pop();
    await changeLimiter(client, id, 'PATCH', { description: 'still here' });
    await allEnded(client, load, 60_000);
    checkSpans(receiver.to(load.path), 20, 1_000);
    await audit(client, receiver, load);
  });
}
