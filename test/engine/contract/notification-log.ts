// Sections 4 and 5 of the contract: the delivery log of a batch, and a notification that is sent again.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { NotificationDelivery, NotificationLog } from '../../../src/schema/types.gen.ts';
import { until } from '../../helpers/redis.ts';
import { freshPath, ONCE, type Stage, tasksFor } from '../stage.ts';

/** Given up at once. */
const NEVER = { status: 500, headers: { 'x-sluice-retry': 'never' } };
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

export function notificationLog({ client, receiver, scoped }: Stage): void {
  const { acme, rival } = client;

  async function logOf(id: string, query = ''): Promise<NotificationLog> {
    const { status, json } = await acme.ask('GET', `/v1/batches/${id}/notifications${query}`);
    assert.equal(status, 200);
    return json as NotificationLog;
  }

  async function logWhen(id: string, holds: (log: NotificationLog) => boolean): Promise<NotificationLog> {
    let log = await logOf(id);
    const now = async (): Promise<boolean> => {
      log = await logOf(id);
      return holds(log);
    };
    await until(now, 20_000, `the log of ${id}`);
    return log;
  }

  const all = (status: NotificationDelivery['status']) => (log: NotificationLog) =>
    log.notifications.every((one) => one.status === status) && log.total > 0;
  const redeliver = (id: string, notification: string | undefined, headers = {}) =>
    acme.ask('POST', `/v1/batches/${id}/notifications/${notification}/redeliver`, { headers });

  test('lists what was sent, newest first, with its result', async () => {
    const path = freshPath();
    const hook = { url: receiver.at(path) };
    const { id } = await acme.create({
      tasks: tasksFor(receiver.at(`${path}/task`), 2),
      notifications: { on_progress: hook, on_finish: hook, on_success: hook, on_complete: hook, on_death: hook },
    });
    const log = await logWhen(id, ({ total, ...rest }) => total === 5 && all('delivered')({ total, ...rest }));
    assert.deepEqual(log.notifications.map(({ event }) => event).sort(), [
      'on_complete',
      'on_finish',
      'on_progress',
      'on_progress',
      'on_success',
    ]);
    const created = log.notifications.map(({ created_at }) => created_at);
    assert.deepEqual(created, created.toSorted().reverse());
    for (const { attempts, result, delivered_at, created_at, ...rest } of log.notifications) {
      assert.deepEqual([attempts, result?.status_code, result?.error], [1, 200, null]);
      assert.ok((result?.duration_ms ?? -1) >= 0 && delivered_at !== undefined && delivered_at >= created_at);
      assert.match(delivered_at, TIME);
      assert.match(rest.id, /^ntf_\w{18}_\d+$/);
      assert.equal('next_attempt_at' in rest, false);
    }
    assert.equal(new Set(log.notifications.map((one) => one.id)).size, 5);
  });

  test('filters by status and event, page by page; total counts what the filter lets through', async () => {
    const path = freshPath();
    const { id } = await acme.create({
      tasks: tasksFor(receiver.at(`${path}/task`), 40),
      notifications: { on_progress: { url: receiver.at(path) }, on_finish: { url: receiver.at(`${path}/gone`, NEVER) } },
    });
    const log = await logWhen(
      id,
      ({ notifications: list, total }) => total === 41 && list.every(({ delivered_at: at, status }) => at || status === 'failed'),
    );
    const [finish] = log.notifications.filter(({ event }) => event === 'on_finish');
    assert.deepEqual([finish?.status, finish?.result?.status_code], ['failed', 500]);
    assert.deepEqual(await logOf(id, '?event=on_finish'), { total: 1, notifications: [finish] });
    assert.deepEqual(await logOf(id, '?status=failed'), { total: 1, notifications: [finish] });
    assert.deepEqual(await logOf(id, '?status=failed&event=on_progress'), { total: 0, notifications: [] });
    const progress = await logOf(id, '?event=on_progress&status=delivered');
    assert.deepEqual([progress.total, progress.notifications.length], [40, 40]);
    const pages = await Promise.all([0, 15, 30, 45].map((offset) => logOf(id, `?event=on_progress&limit=15&offset=${offset}`)));
    assert.deepEqual(
      pages.map(({ total, notifications }) => [total, notifications.length]),
      [
        [40, 15],
        [40, 15],
        [40, 10],
        [40, 0],
      ],
    );
    assert.deepEqual(
      pages.flatMap(({ notifications }) => notifications),
      progress.notifications,
    );
    await acme.refused(400, 'validation_error', 'GET', `/v1/batches/${id}/notifications?event=on_nothing`);
    await acme.refused(400, 'validation_error', 'GET', `/v1/batches/${id}/notifications?status=sent`);
    await acme.refused(400, 'validation_error', 'GET', `/v1/batches/${id}/notifications?limit=0`);
  });

  test('one that failed waits for its next try, and says when; being sent is delivering', async () => {
    const path = freshPath();
    const { id } = await acme.create({
      tasks: tasksFor(receiver.at(`${path}/task`), 1),
      notifications: {
        on_finish: { url: receiver.at(`${path}/bad`, { status: 500, body: 'busy' }) },
        on_complete: { url: receiver.at(`${path}/slow`, { hold: true }) },
      },
    });
    await receiver.heard(`${path}/slow`, 1);
    const log = await logWhen(id, ({ notifications }) => notifications.some(({ result }) => result !== undefined));
    const bad = log.notifications.find(({ event }) => event === 'on_finish');
    const slow = log.notifications.find(({ event }) => event === 'on_complete');
    assert.deepEqual([bad?.status, bad?.attempts, bad?.result?.error?.code, bad?.result?.status_code], ['pending', 1, 'http_status', 500]);
    const wait_s = (Date.parse(bad?.next_attempt_at ?? '') - Date.now()) / 1_000;
    assert.ok(wait_s > 20 && wait_s < 34, `next attempt in ${wait_s} s`);
    assert.deepEqual([slow?.status, slow?.attempts, slow !== undefined && 'result' in slow], ['delivering', 1, false]);
    for (const one of [bad, slow]) {
      const again = await redeliver(id, one?.id);
      assert.deepEqual([again.status, again.json], [200, one], 'what is on its way stays as it is');
    }
    receiver.release(`${path}/slow`);
    await logWhen(id, ({ notifications }) => notifications.some(({ event, status }) => event === 'on_complete' && status === 'delivered'));
  });

  test('a batch that notifies of nothing has an empty log', async () => {
    const { id } = await acme.create({ tasks: tasksFor(receiver.at(freshPath()), 1) });
    assert.deepEqual(await logOf(id), { total: 0, notifications: [] });
    assert.deepEqual(await logOf(id, '?event=on_finish&status=failed'), { total: 0, notifications: [] });
  });

  test('one that was given up, and one that was delivered, are sent again with the same id and body', async () => {
    const path = freshPath();
    const { id } = await acme.create({
      tasks: tasksFor(receiver.at(`${path}/task`, { status: 500 }), 1, ONCE),
      notifications: {
        on_finish: { url: receiver.at(`${path}/gone`, NEVER, {}) },
        on_death: { url: receiver.at(`${path}/fine`) },
      },
    });
    const log = await logWhen(id, ({ notifications, total }) => total === 2 && notifications.every(({ result }) => result !== undefined));
    for (const [event, at] of [['on_finish', `${path}/gone`] as const, ['on_death', `${path}/fine`] as const]) {
      const one = log.notifications.find((each) => each.event === event);
      const { status, json, text } = await redeliver(id, one?.id);
      assert.equal(status, 200, text);
      const again = json as NotificationDelivery;
      assert.deepEqual([again.id, again.event, again.created_at], [one?.id, event, one?.created_at]);
      const calls = await receiver.heard(at, 2);
      assert.deepEqual(
        calls.map((call) => [call.id, call.attempt, call.body.toString()]),
        [1, 2].map(() => [calls[0]?.id, 1, calls[0]?.body.toString()]),
      );
    }
    const after = await logWhen(id, all('delivered'));
    assert.deepEqual(
      after.notifications.map(({ attempts }) => attempts),
      [1, 1],
    );
    assert.equal((await acme.batch(id)).status, 'failed');
  });

  test('the same Idempotency-Key redelivers once', async () => {
    const path = freshPath();
    const { id } = await acme.create({
      tasks: tasksFor(receiver.at(`${path}/task`), 1),
      notifications: { on_finish: { url: receiver.at(path) } },
    });
    const log = await logWhen(id, all('delivered'));
    const key = { 'idempotency-key': `again-${id}` };
    const first = await redeliver(id, log.notifications[0]?.id, key);
    await receiver.heard(path, 2);
    await logWhen(id, all('delivered'));
    const again = await redeliver(id, log.notifications[0]?.id, key);
    assert.deepEqual([again.text, again.headers['idempotent-replayed']], [first.text, 'true']);
    assert.equal(receiver.to(path).length, 2);
  });

  test('what there is none of is 404, also for another account', async () => {
    const path = freshPath();
    const notifications = { on_finish: { url: receiver.at(path) } };
    const { id } = await acme.create({ tasks: tasksFor(receiver.at(`${path}/task`), 1), notifications });
    const other = await acme.create({ tasks: tasksFor(receiver.at(`${path}/task`), 1), notifications });
    const silent = await acme.create({ tasks: tasksFor(receiver.at(`${path}/task`), 1) });
    const [one] = (await logWhen(id, all('delivered'))).notifications;
    const again = (batch: string, notification: string | undefined) => `/v1/batches/${batch}/notifications/${notification}/redeliver`;
    const core = id.slice('batch_'.length);
    for (const [batch, notification] of [
      [other.id, one?.id],
      [id, `ntf_${core}_1`],
      [id, `ntf_${core}_99999999`],
      [id, `ntf_${core}_x`],
      [id, `task_${core}_0`],
      [silent.id, `ntf_${silent.id.slice('batch_'.length)}_0`],
    ] as const) {
      await acme.refused(404, 'notification_not_found', 'POST', again(batch, notification));
    }
    await acme.refused(404, 'batch_not_found', 'POST', again('batch_0', one?.id));
    await acme.refused(404, 'batch_not_found', 'GET', `/v1/batches/${id}n/notifications`);
    await rival.refused(404, 'batch_not_found', 'POST', again(id, one?.id));
    await rival.refused(404, 'batch_not_found', 'GET', `/v1/batches/${id}/notifications`);
    await rival.refused(404, 'batch_not_found', 'GET', `/v1/batches/${id}/notifications?limit=0`);
    await scoped.read.refused(403, 'forbidden', 'POST', again(id, one?.id));
    assert.equal((await scoped.read.ask('GET', `/v1/batches/${id}/notifications`)).status, 200);
    await acme.refused(400, 'validation_error', 'POST', again(id, one?.id), { body: { now: true } });
    await acme.refused(404, 'notification_not_found', 'POST', again(id, `ntf_${core}_5`), { body: { now: true } });
  });
}
