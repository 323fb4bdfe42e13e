// Notifications of batches as receivers see them: which come, what they say, how they are signed, sent again and given up,
// and that slow webhooks leave the places of tasks alone.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import type { Batch } from '../../src/schema/types.gen.ts';
import { api } from '../helpers/api.ts';
import { startEngine, TOKENS } from '../helpers/engine.ts';
import { type ReceivedCall, startReceiver } from '../helpers/receiver.ts';
import { startRedis, until } from '../helpers/redis.ts';
import { freshPath, inSeconds, ONCE, tasksFor } from './stage.ts';

/** Six tries, as in production, in a second. */
const DELAYS = [0.05, 0.1, 0.15, 0.2, 0.25];
const PLACES = 200;
const redis = await startRedis();
const engine = await startEngine({
  redis_url: `unix://${redis.path}`,
  env: { SLUICE_NOTIFICATION_RETRY_DELAYS: DELAYS.join(','), SLUICE_CALLBACKS_PER_THREAD: String(PLACES), SLUICE_CALLBACK_THREADS: '1' },
});
const acme = api(engine, TOKENS.acme);
const receiver = await startReceiver();

const EVENTS = ['on_progress', 'on_finish', 'on_success', 'on_death', 'on_complete'] as const;
type EventName = (typeof EVENTS)[number];

interface Payload {
  event: EventName;
  batch: Pick<Batch, 'id' | 'status' | 'created_at' | 'completion_rate'> & { stats: Record<string, number>; completed_at: string | null };
  first_failure?: { task_id: string; error: string; failed_at: string };
  timestamp: string;
}

const hooksAt = (path: string, more: object = {}) =>
  Object.fromEntries(EVENTS.map((event) => [event, { url: receiver.at(`${path}/${event}`), method: 'POST', ...more }]));
const payload = (call: ReceivedCall | undefined): Payload => JSON.parse(call?.body.toString() ?? 'null') as Payload;
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

test('a batch of two tasks, one of which fails, tells of it exactly as the contract says', async () => {
  const path = freshPath();
  const [good, bad] = [receiver.at(`${path}/good`), receiver.at(`${path}/bad`, { status: 500 })];
  const created = await acme.create({
    notifications: hooksAt(path, { headers: { 'x-mine': 'yes' } }),
    tasks: [{ target: good }, { target: bad, ...ONCE, execute_after: inSeconds(0.5) }],
  });
  const [finish] = await receiver.heard(`${path}/on_finish`, 1);
  await receiver.heard(`${path}/on_complete`, 1);
  const [death] = await receiver.heard(`${path}/on_death`, 1);
  const progress = await receiver.heard(`${path}/on_progress`, 2);
  assert.deepEqual(
    progress.map((call) => payload(call).batch.stats).sort((a, b) => (a['failed'] ?? 0) - (b['failed'] ?? 0)),
    [
      { total: 2, pending: 1, completed: 1, failed: 0 },
      { total: 2, pending: 0, completed: 1, failed: 1 },
    ],
  );
  const said = payload(finish);
  assert.deepEqual(said, {
    event: 'on_finish',
    batch: {
      id: created.id,
      status: 'failed',
      stats: { total: 2, pending: 0, completed: 1, failed: 1 },
      created_at: created.created_at,
      completed_at: said.batch.completed_at,
      completion_rate: 50,
    },
    timestamp: said.timestamp,
  });
  assert.match(said.timestamp, TIME);
  assert.equal(said.batch.completed_at, said.timestamp);
  const { first_failure, batch } = payload(death);
  const failed = (await acme.tasks(created.id, '?status=failed')).tasks[0];
  assert.deepEqual([first_failure?.task_id, first_failure?.error], [failed?.id, failed?.result?.error?.message]);
  assert.match(first_failure?.failed_at ?? '', TIME);
  assert.equal(batch.status, 'failed');
  assert.equal(payload(progress.find((call) => payload(call).batch.stats['pending'] === 1)).batch.completed_at, null);
  assert.equal(receiver.to(`${path}/on_success`).length, 0);

  assert.deepEqual(
    [finish?.headers['webhook-id'], finish?.headers['x-sluice-batch-id'], finish?.headers['x-sluice-attempt'], finish?.headers['x-mine']],
    [`${created.id}_on_finish_1`, created.id, '1', 'yes'],
  );
  const ids = progress.map(({ id }) => id);
  assert.ok(new Set(ids).size === 2 && ids.every((id) => id.startsWith(`${created.id}_on_progress_`)), ids.join(' '));
  const { json } = await acme.ask('GET', '/v1/signing-secret');
  const { secret = '' } = (json as { secrets: { secret: string }[] }).secrets[0] ?? {};
  for (const call of [finish, death, ...progress]) {
    assert.ok(call);
    new Webhook(secret).verify(call.body, call.headers as Record<string, string>);
    assert.equal(call.headers['content-type'], 'application/json');
  }
});

test('methods are those of the webhooks; a companion is no batch that anybody can ask for', async () => {
  const path = freshPath();
  const { id } = await acme.create({
    notifications: {
      on_finish: { url: receiver.at(`${path}/put`), method: 'PUT' },
      on_success: { url: receiver.at(`${path}/patch`), method: 'PATCH' },
    },
    tasks: tasksFor(receiver.at(path), 1),
  });
  assert.equal((await receiver.heard(`${path}/put`, 1))[0]?.method, 'PUT');
  assert.equal((await receiver.heard(`${path}/patch`, 1))[0]?.method, 'PATCH');
  await acme.refused(404, 'batch_not_found', 'GET', `/v1/batches/${id}n`);
  await acme.refused(404, 'task_not_found', 'GET', `/v1/tasks/${id.replace('batch_', 'task_')}n_0`);
  assert.ok((await acme.batches()).batches.every((batch) => /^batch_\w{18}$/.test(batch.id)));
});

test('a webhook that fails is tried six times with the same id and body, and the batch stays as it was', async () => {
  const path = freshPath();
  const hook = receiver.at(`${path}/hook`, { status: 503 });
  const { id } = await acme.create({ notifications: { on_finish: { url: hook } }, tasks: tasksFor(receiver.at(path), 1) });
  const calls = await receiver.heard(`${path}/hook`, 6);
  assert.deepEqual(
    calls.map(({ attempt }) => attempt),
    [1, 2, 3, 4, 5, 6],
  );
  assert.equal(new Set(calls.map((call) => call.id)).size, 1);
  assert.equal(new Set(calls.map((call) => call.body.toString())).size, 1);
  for (const [k, delay] of DELAYS.entries()) {
    const waited_ms = (calls[k + 1]?.at_ms ?? 0) - (calls[k]?.at_ms ?? 0);
    assert.ok(waited_ms >= delay * 900 - 2, `try ${k + 2} came after ${waited_ms} ms`);
  }
  const later = await acme.create({ notifications: { on_finish: { url: hook } }, tasks: tasksFor(receiver.at(path), 1) });
  await receiver.heard(`${path}/hook`, 12);
  assert.equal(calls.filter((call) => call.id.startsWith(id)).length, 6);
  assert.equal((await acme.batch(id)).status, 'completed');
  await acme.ended(later.id, 'completed');
});

test('X-Sluice-Retry: never ends the tries, 410 does not; a later success ends them too', async () => {
  const path = freshPath();
  const tasks = tasksFor(receiver.at(path), 1);
  const gone = receiver.at(`${path}/gone`, { status: 410 });
  const never = receiver.at(`${path}/never`, { status: 500, headers: { 'x-sluice-retry': 'never' } });
  const third = receiver.at(`${path}/third`, { status: 500 }, { close: true }, {});
  await acme.create({ notifications: { on_finish: { url: gone }, on_success: { url: never }, on_complete: { url: third } }, tasks });
  await receiver.heard(`${path}/third`, 3);
  await receiver.heard(`${path}/gone`, 6);
  const done = receiver.at(`${path}/done`);
  await acme.create({ notifications: { on_finish: { url: receiver.at(`${path}/slow`, { status: 500 }) } }, tasks });
  await receiver.heard(`${path}/slow`, 6);
  assert.ok(done);
  assert.deepEqual(
    [receiver.to(`${path}/gone`).length, receiver.to(`${path}/never`).length, receiver.to(`${path}/third`).length],
    [6, 1, 3],
  );
});

test('the progress of a cancel is one; what runs ends the batch', async () => {
  const path = freshPath();
  const held = receiver.at(`${path}/held`, { hold: true });
  const { id } = await acme.create({
    notifications: hooksAt(path),
    tasks: [...tasksFor(held, 1), ...tasksFor(held, 20, { execute_after: inSeconds(3_600) })],
  });
  await receiver.heard(`${path}/held`, 1);
  await acme.cancel(id);
  const [first] = await receiver.heard(`${path}/on_progress`, 1);
  assert.deepEqual(payload(first).batch.stats, { total: 21, pending: 1, completed: 0, failed: 0, cancelled: 20 });
  assert.equal(receiver.to(`${path}/on_finish`).length, 0);
  receiver.release(`${path}/held`);
  const [finish] = await receiver.heard(`${path}/on_finish`, 1);
  assert.deepEqual(payload(finish).batch, {
    ...payload(finish).batch,
    status: 'cancelled',
    stats: { total: 21, pending: 0, completed: 1, failed: 0, cancelled: 20 },
  });
});

test('webhooks that never answer take a quarter of the places, and tasks keep their pace', async () => {
  const path = freshPath();
  const hang = receiver.at(`${path}/hang`, { hold: true });
  const flood = await acme.create({ notifications: { on_progress: { url: hang } }, tasks: tasksFor(receiver.at(path), 2_000) });
  await acme.ended(flood.id, 'completed');
  await until(() => receiver.held(`${path}/hang`).length >= PLACES / 4, 10_000, 'the places of notifications to be taken');
  const began_ms = Date.now();
  const beside = await acme.create({ tasks: tasksFor(receiver.at(`${path}/beside`), 500) });
  await acme.ended(beside.id, 'completed');
  assert.ok(Date.now() - began_ms < 5_000, `500 tasks took ${Date.now() - began_ms} ms`);
  // A claim takes whole pages, and two may be under way.
  const held = receiver.held(`${path}/hang`).length;
  assert.ok(held <= PLACES / 4 + 2 * 24, `${held} webhooks are held`);
  receiver.release(`${path}/hang`);
  await receiver.heard(`${path}/hang`, 2_000);
});

test('every finish of 2,000 tasks is told once, with the stats as they stood', async () => {
  const path = freshPath();
  const { id } = await acme.create({ notifications: hooksAt(path), tasks: tasksFor(receiver.at(path), 2_000) });
  await receiver.heard(`${path}/on_progress`, 2_000);
  await receiver.heard(`${path}/on_success`, 1);
  const completed = receiver.to(`${path}/on_progress`).map((call) => payload(call).batch.stats['completed'] ?? 0);
  assert.deepEqual(
    completed.sort((a, b) => a - b),
    Array.from({ length: 2_000 }, (_, k) => k + 1),
  );
  const metrics = await (await fetch(`${engine.url}/metrics`)).text();
  assert.match(metrics, /sluice_notifications_total\{event="on_progress",outcome="delivered"\} \d+/);
  assert.equal((await acme.batch(id)).status, 'completed');
});
