// Section 4 of the contract: creating, reading, listing, adding, and what a batch shows.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Batch } from '../../../src/schema/types.gen.ts';
import { inList } from '../../helpers/api.ts';
import { FORBIDDEN_URL, freshPath, inSeconds, type Stage, tasksFor } from '../stage.ts';

const STATS = ['total', 'pending', 'completed', 'failed', 'cancelled'];

export function batches({ client, receiver }: Stage): void {
  const { acme } = client;
  const later = (count: number) => tasksFor(receiver.at(freshPath()), count, { execute_after: inSeconds(3_600) });
  const waiting = (total: number) => ({ total, pending: total, completed: 0, failed: 0, cancelled: 0 });

  test('a created batch is answered with exactly the fields of the contract, and reads the same', async () => {
    const notifications = { on_finish: { url: `${receiver.url}/hook`, method: 'POST' }, on_death: { url: `${receiver.url}/hook` } };
    const batch = await acme.create({
      description: 'Two of a kind ✓',
      tasks: later(2),
      notifications,
      options: { atomic: true, expiration: 1.5 },
    });
    assert.deepEqual(batch, {
      id: batch.id,
      status: 'pending',
      description: 'Two of a kind ✓',
      notifications,
      stats: waiting(2),
      options: { atomic: true, expiration: 1.5, hold: false },
      created_at: batch.created_at,
      updated_at: batch.created_at,
      completion_rate: 0,
    });
    assert.deepEqual(Object.keys(batch.stats), STATS);
    assert.deepEqual(await acme.batch(batch.id), batch);
  });

  test('what is optional shows its default, or is not there', async () => {
    const batch = await acme.create({ tasks: later(1) });
    const { id, created_at, updated_at } = batch;
    const options = { atomic: true, expiration: 24, hold: false };
    assert.deepEqual(batch, {
      id,
      status: 'pending',
      notifications: {},
      stats: waiting(1),
      options,
      created_at,
      updated_at,
      completion_rate: 0,
    });
  });

  test('labels are shown as given', async () => {
    const labels = { team: 'billing', 'a.b-c_9': 'Ünï ✓', constructor: 'x', prototype: 'y' };
    const { id } = await acme.create({ tasks: later(1), labels });
    assert.deepEqual((await acme.batch(id)).labels, labels);
    assert.deepEqual((await inList(acme, id, '?limit=1000'))?.labels, labels);
  });

  test('the bounds of description and expiration are inside', async () => {
    const { id, description } = await acme.create({ tasks: later(1), description: '😀'.repeat(1_024), options: { expiration: 720 } });
    assert.equal([...(description ?? '')].length, 1_024);
    assert.equal((await acme.batch(id)).options.expiration, 720);
    assert.equal((await acme.create({ tasks: later(1), description: '' })).description, '');
  });

  test('an item of the list is the batch without notifications and options', async () => {
    const created = await acme.create({ description: 'listed', tasks: later(3), notifications: { on_finish: { url: receiver.url } } });
    const { notifications: _notifications, options: _options, ...item } = created;
    assert.deepEqual(await inList(acme, created.id, '?limit=1000'), item);
    assert.deepEqual(await inList(acme, created.id, '?limit=1000&status=pending'), item);
    for (const status of ['processing', 'completed', 'failed', 'expired']) {
      assert.equal(await inList(acme, created.id, `?limit=1000&status=${status}`), undefined);
    }
  });

  test('header values of notifications are never shown', async () => {
    const notifications = { on_success: { url: receiver.url, method: 'PUT', headers: { Authorization: 'secret', 'x-b': 'c' } } };
    const created = await acme.create({ tasks: later(1), notifications });
    const shown = { on_success: { ...notifications.on_success, headers: { Authorization: '***', 'x-b': '***' } } };
    assert.deepEqual(created.notifications, shown);
    assert.deepEqual((await acme.batch(created.id)).notifications, shown);
  });

  test('added tasks are counted, follow those that are there, and are answered with the change', async () => {
    const created = await acme.create({ tasks: later(2) });
    const changed = await acme.add(created.id, { tasks: later(3) });
    assert.deepEqual(changed, { id: created.id, status: 'pending', stats: waiting(5), updated_at: changed.updated_at, completion_rate: 0 });
    assert.ok(changed.updated_at >= created.updated_at);
    const { total, tasks } = await acme.tasks(created.id);
    assert.equal(total, 5);
    assert.deepEqual(
      tasks.map(({ payload }) => payload),
      [0, 1, 0, 1, 2].map((n) => ({ n })),
    );
    assert.equal((await acme.batch(created.id)).updated_at, changed.updated_at);
  });

  test('tasks can be added to a batch that is processing, and run', async () => {
    const path = freshPath();
    const url = receiver.at(path, { hold: true });
    const { id } = await acme.create({ tasks: tasksFor(url, 1) });
    await receiver.heard(path, 1);
    const changed = await acme.add(id, { tasks: tasksFor(url, 2) });
    assert.deepEqual([changed.status, changed.stats], ['processing', waiting(3)]);
    await receiver.heard(path, 3);
    receiver.release(path);
    assert.equal((await acme.ended(id, 'completed')).stats.completed, 3);
  });

  test('a thousand tasks added twenty at a time by many callers at once are all there, each once', async () => {
    const path = freshPath();
    const url = receiver.at(path);
    const tagged = (from: number) => Array.from({ length: 20 }, (_, n) => ({ target: url, payload: from + n }));
    const { id } = await acme.create({ tasks: tagged(0), options: { hold: true } });
    await Promise.all(Array.from({ length: 49 }, (_, k) => acme.add(id, { tasks: tagged((k + 1) * 20) })));
    await acme.release(id);
    const ended = await acme.ended(id, 'completed');
    assert.equal(ended.stats.total, 1_000);
    const payloads = receiver.to(path).map(({ body }) => Number(body));
    assert.equal(payloads.length, 1_000);
    assert.equal(new Set(payloads).size, 1_000);
  });

  test('atomic: where one task is refused, none is created', async () => {
    const good = later(1);
    const bad = { target: { url: 'ftp://x' } };
    const before = (await client.atomic.batches()).total;
    await client.atomic.refused(400, 'validation_error', 'POST', '/v1/batches', { body: { tasks: [...good, bad] } });
    await client.atomic.refused(400, 'target_not_allowed', 'POST', '/v1/batches', {
      body: { tasks: [...good, { target: FORBIDDEN_URL }] },
    });
    assert.equal((await client.atomic.batches()).total, before);
    const { id } = await client.atomic.create({ tasks: good });
    await client.atomic.refused(400, 'validation_error', 'POST', `/v1/batches/${id}/tasks`, { body: { tasks: [...good, bad] } });
    assert.equal((await client.atomic.batch(id)).stats.total, 1);
  });

  test('atomic false: the valid tasks are created, the others are told with index, message and path', async () => {
    const [good] = later(1);
    const mixed = [
      good,
      { target: 'ftp://x' },
      good,
      { target: FORBIDDEN_URL },
      { target: receiver.url, rate_limiter: 'nobody' },
      { target: 1 },
    ];
    const places = ['1 /tasks/1/target', '3 /tasks/3/target', '4 /tasks/4/rate_limiter', '5 /tasks/5/target'];
    const toPlaces = (errors: unknown) =>
      (errors as { index: number; message: string; path: string }[]).map(({ index, message, path, ...others }) => {
        assert.ok(message.length > 0);
        assert.deepEqual(others, {});
        return `${index} ${path}`;
      });
    const created = await acme.create({ tasks: mixed, options: { atomic: false } });
    assert.deepEqual([created.stats.total, created.options.atomic], [2, false]);
    assert.deepEqual(toPlaces(created.errors), places);
    const added = await acme.add(created.id, { tasks: mixed, atomic: false });
    assert.equal(added.stats.total, 4);
    assert.deepEqual(toPlaces(added.errors), places);
    for (const [path, more] of [
      ['/v1/batches', { options: { atomic: false } }] as const,
      [`/v1/batches/${created.id}/tasks`, { atomic: false }] as const,
    ]) {
      await acme.refused(400, 'validation_error', 'POST', path, { body: { tasks: [{ target: 'ftp://x' }, { target: 1 }], ...more } });
    }
    assert.equal((await acme.batch(created.id)).stats.total, 4);
  });

  test('a repeated idempotency_key is skipped within its batch and counted', async () => {
    const keyed = (...keys: string[]) =>
      keys.map((idempotency_key) => ({ target: receiver.url, execute_after: inSeconds(3_600), idempotency_key }));
    const created = await acme.create({ tasks: keyed('a', 'b', 'a', 'c', 'b') });
    assert.deepEqual([created.stats.total, created.duplicates], [3, 2]);
    const added = await acme.add(created.id, { tasks: keyed('c', 'd') });
    assert.deepEqual([added.stats.total, added.duplicates], [4, 1]);
    const nothing = await acme.add(created.id, { tasks: keyed('a', 'd') });
    assert.deepEqual([nothing.stats.total, nothing.duplicates], [4, 2]);
    assert.equal('duplicates' in (await acme.add(created.id, { tasks: keyed('e') })), false);
    assert.equal((await acme.create({ tasks: keyed('a') })).stats.total, 1);
    const racing = await Promise.all(Array.from({ length: 8 }, () => acme.add(created.id, { tasks: keyed('x', 'y') })));
    assert.equal((await acme.batch(created.id)).stats.total, 7);
    assert.equal(
      racing.reduce((sum, { duplicates = 0 }) => sum + duplicates, 0),
      14,
    );
  });

  test('a large batch is created at once and listed in its order', async () => {
    const count = 5_000;
    const { id, stats } = await acme.create({ tasks: later(count) });
    assert.deepEqual(stats, waiting(count));
    const all = await acme.allTasks(id);
    assert.equal(all.length, count);
    assert.ok(all.every(({ payload }, n) => (payload as { n: number }).n === n));
    assert.equal(new Set(all.map((task) => task.id)).size, count);
    const changed = await acme.cancel(id);
    assert.deepEqual(changed.stats, { ...waiting(count), pending: 0, cancelled: count });
  });

  test('bodies of 2.7 MB with keys: a repeat has the first answer, and tasks that are there are left out', async () => {
    const many = (from: number) =>
      Array.from({ length: 2_000 }, (_, i) => ({
        target: receiver.url,
        execute_after: inSeconds(3_600),
        idempotency_key: `large-${from + i}`,
        payload: { n: from + i, text: 'x'.repeat(1_200) },
      }));
    const send = async (path: string, key: string, body: object) => {
      const reply = await acme.ask('POST', path, { body, headers: { 'idempotency-key': key } });
      assert.ok(reply.status < 300, reply.text);
      return { replayed: reply.headers['idempotent-replayed'], json: reply.json as Batch & { duplicates?: number } };
    };
    const [first, second] = [{ tasks: many(0) }, { tasks: many(1_000) }];
    const create = await send('/v1/batches', 'large-create', first);
    const again = await send('/v1/batches', 'large-create', first);
    assert.deepEqual([create.replayed, again.replayed, again.json], [undefined, 'true', create.json]);
    const { id } = create.json;
    const add = await send(`/v1/batches/${id}/tasks`, 'large-add', second);
    assert.deepEqual([add.json.stats.total, add.json.duplicates], [3_000, 1_000]);
    const added = await send(`/v1/batches/${id}/tasks`, 'large-add', second);
    assert.deepEqual([added.replayed, added.json], ['true', add.json]);
    assert.deepEqual(
      (await acme.allTasks(id)).map(({ payload }) => (payload as { n: number }).n),
      Array.from({ length: 3_000 }, (_, n) => n),
    );
    await acme.cancel(id);
  });

  test('a batch that is not held is released without effect', async () => {
    const created = await acme.create({ tasks: later(1) });
    assert.deepEqual(await acme.release(created.id), created);
  });
}
