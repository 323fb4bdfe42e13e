// What an engine does about a batch that is not as its tasks say: nothing where all is well, which is always; asked to, at once; by
// itself within some passes. Runs on one Redis and on a Redis Cluster.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { Cluster, Redis } from 'ioredis';
import { ID_PREFIX, parseId, partitionOf } from '../../src/base/id.ts';
import { keys } from '../../src/store/keys.ts';
import { REPAIRS } from '../../src/store/reconcile.ts';
import { metric } from '../helpers/metrics.ts';
import { until } from '../helpers/redis.ts';
import { freshPath, inSeconds, type Stage, tasksFor } from './stage.ts';

/** A pass every 1.2 s. */
export const OFTEN = { env: { SLUICE_SWEEP_INTERVAL: '0.1s', SLUICE_LIMIT_BATCH_STATUS: '60' } } as const;

const PASS_MS = 1_200;
const PASSES = 5;
const LOAD = 40;
const FOUND_MS_MAX = 30_000;

export function reconciles({ engine, client, receiver }: Stage, redis: Redis | Cluster): void {
  const { acme, rival } = client;
  const waiting = (total: number) => acme.create({ tasks: tasksFor(receiver.at(freshPath()), total, { execute_after: inSeconds(3_600) }) });
  /** Which no pass counts: only who asks sets it right. */
  const over = async (total: number) => acme.cancel((await waiting(total)).id);
  const keyOf = (id: string): string => keys.batch(partitionOf(coreOf(id)), coreOf(id));
  const coreOf = (id: string): string => parseId(ID_PREFIX.batch, id) ?? assert.fail(id);
  const repaired = (what: string): Promise<number> => metric(engine, `reconciled_total{what="${what}"}`);
  const lines = (what: string): number => engine.logs().filter((line) => line.includes(`"msg":"${what}: something was not`)).length;
  const found = (what: string, before_count: number): Promise<void> =>
    until(async () => (await repaired(what)) > before_count, FOUND_MS_MAX, `${what} to be set right`);

  before(async () => {
    // Work of every kind, so that a pass has something to look at.
    const path = freshPath();
    const failing = receiver.at(freshPath(), { status: 500 }, { status: 200 });
    await Promise.all(
      Array.from({ length: LOAD }, (_, i) =>
        acme.create({
          tasks: [
            ...tasksFor(receiver.at(path), 20),
            ...tasksFor(failing, 2, { retry: { max_retries: 3, backoff: 'fixed', delay: 1 } }),
            ...tasksFor(receiver.at(path), 2, { execute_after: inSeconds(i % 4) }),
          ],
          notifications: { on_progress: { url: receiver.at('/progress') }, on_finish: { url: receiver.at('/finish') } },
        }),
      ),
    );
    await acme.createTask({ target: receiver.at(path), execute_after: inSeconds(600) });
    await waiting(3);
    await until(() => receiver.to('/finish').length >= LOAD, FOUND_MS_MAX, 'all batches to end');
  });

  test('where all is well nothing is set right', async () => {
    // Some passes: everything that rests has been looked for. A connection that is used meanwhile is not closed as idle.
    for (let pass = 0; pass < PASSES; pass++) {
      await new Promise((resolve) => setTimeout(resolve, PASS_MS));
      await acme.batches('?limit=1');
    }
    for (const what of REPAIRS) assert.equal(await repaired(what), 0, what);
  });

  describe('asked to verify a batch', () => {
    test('an engine says that it is right, and changes nothing', async () => {
      const { id } = await waiting(5);
      const fields = await redis.hgetall(keyOf(id));
      const { json } = await acme.ask('GET', `/v1/batches/${id}?verify=true`);
      assert.deepEqual(json, { ...(await acme.batch(id)), verified: { consistent: true, repaired: [] } });
      const { json: plain } = await acme.ask('GET', `/v1/batches/${id}?verify=false`);
      assert.ok(!('verified' in (plain as object)));
      assert.deepEqual(await redis.hgetall(keyOf(id)), fields);
    });

    test('it sets counters right, counts that and logs it', async () => {
      const { id } = await over(5);
      const [count, logged] = [await repaired('counters'), lines('counters')];
      await redis.hset(keyOf(id), 'c', '2', 'x', '1');
      const { json } = await acme.ask('GET', `/v1/batches/${id}?verify=true`);
      assert.deepEqual((json as { verified: unknown }).verified, { consistent: false, repaired: ['counters'] });
      assert.deepEqual((json as { stats: unknown }).stats, { total: 5, pending: 0, completed: 0, failed: 0, cancelled: 5 });
      assert.equal((await repaired('counters')) - count, 1);
      await until(() => lines('counters') === logged + 1, 5_000, 'a line of the log');
      const again = await acme.ask('GET', `/v1/batches/${id}?verify=true`);
      assert.deepEqual((again.json as { verified: unknown }).verified, { consistent: true, repaired: [] });
    });

    test('it ends a batch whose end was missed', async () => {
      const { id } = await waiting(2);
      const core = coreOf(id);
      const count = await repaired('end');
      await redis.set(keys.states(partitionOf(core), core), 'cc');
      const { json } = await acme.ask('GET', `/v1/batches/${id}?verify=true`);
      assert.equal((json as { status: string }).status, 'completed');
      // By this request, or by a pass that was faster.
      await until(async () => (await repaired('end')) === count + 1, 5_000, 'the end to be counted');
    });

    test('another account learns nothing and changes nothing', async () => {
      const { id } = await over(2);
      await redis.hset(keyOf(id), 'c', '1');
      await rival.refused(404, 'batch_not_found', 'GET', `/v1/batches/${id}?verify=true`);
      assert.equal(await redis.hget(keyOf(id), 'c'), '1');
    });

    test('it counts as a read of the batch, and a wrong value is refused', async () => {
      const { id } = await waiting(1);
      const first = await acme.ask('GET', `/v1/batches/${id}?verify=true`);
      assert.match(String(first.headers['ratelimit']), /r=59/);
      await acme.refused(400, 'validation_error', 'GET', `/v1/batches/${id}?verify=maybe`);
      for (let left = 59; left > 0; left--) await acme.ask('GET', `/v1/batches/${id}?verify=true`);
      await acme.refused(429, 'rate_limited', 'GET', `/v1/batches/${id}?verify=true`);
    });
  });

  describe('left alone', () => {
    test('an engine sets counters right by itself', async () => {
      const { id } = await waiting(4);
      const count = await repaired('counters');
      await redis.hset(keyOf(id), 'f', '3');
      await found('counters', count);
      assert.equal((await acme.batch(id)).stats.pending, 4);
    });

    test('it finds tasks that no queue has, and calls them', async () => {
      const path = freshPath();
      const { id } = await acme.create({ tasks: tasksFor(receiver.at(path), 6, { execute_after: inSeconds(2) }) });
      const single = await acme.createTask({ target: receiver.at(path), execute_after: inSeconds(2) });
      const count = await repaired('queue');
      for (const core of [coreOf(id), single.id.slice('task_'.length)]) await redis.del(keys.delayed(partitionOf(core)));
      await receiver.heard(path, 7, FOUND_MS_MAX);
      await acme.ended(id, 'completed');
      await acme.taskWhen(single.id, ({ status }) => status === 'completed');
      assert.equal(receiver.to(path).length, 7);
      // Those that wait longer are among what was lost; threads tell what they counted once a second.
      await until(async () => (await repaired('queue')) >= count + 7, 5_000, 'all to be counted');
    });
  });
}
