// Section 6 of the contract, as callers of the API see schedules.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type {
  CronPreview,
  Schedule,
  ScheduledTaskList,
  ScheduleList,
  SchedulePreview,
  ScheduleRun,
} from '../../../src/schema/types.gen.ts';
import type { Client } from '../../helpers/api.ts';
import { until } from '../../helpers/redis.ts';
import { FORBIDDEN_URL, freshPath, inSeconds, ONCE, type Stage } from '../stage.ts';

const YEARLY = { cron: '0 0 1 1 *', timezone: 'UTC' } as const;

async function ok<T>(client: Client, status: number, method: string, path: string, body?: unknown): Promise<T> {
  const reply = await client.ask(method, path, body === undefined ? {} : { body });
  assert.equal(reply.status, status, `${method} ${path}: ${reply.text.slice(0, 1_000)}`);
  return reply.json as T;
}

const create = (client: Client, body: object): Promise<Schedule> => ok(client, 201, 'POST', '/v1/schedules', body);
const read = (client: Client, id: string): Promise<Schedule> => ok(client, 200, 'GET', `/v1/schedules/${id}`);
const tasksOf = (client: Client, id: string, query = ''): Promise<ScheduledTaskList> =>
  ok(client, 200, 'GET', `/v1/schedules/${id}/tasks${query}`);

export function schedules({ client, receiver, scoped }: Stage): void {
  const { acme, rival } = client;
  const template = (path = freshPath()) => ({ target: receiver.at(path), payload: { a: 1 } });

  test('a schedule is answered with all its fields, and read back the same', async () => {
    const task_template = { ...template(), timeout: 5, retry: { max_retries: 1 } };
    const created = await create(acme, {
      cron: '30 9 * * MON-FRI',
      timezone: 'Europe/Berlin',
      task_template,
      start_at: '2030-01-01T00:00:00+01:00',
    });
    const { id, created_at, updated_at, next_execution_at, ...rest } = created;
    assert.match(id, /^sched_[0-9A-Za-z]{18}$/);
    assert.equal(updated_at, created_at);
    assert.equal(next_execution_at, '2030-01-01T08:30:00.000Z');
    assert.deepEqual(rest, {
      status: 'active',
      cron: '30 9 * * MON-FRI',
      timezone: 'Europe/Berlin',
      start_at: '2029-12-31T23:00:00.000Z',
      task_template,
      enabled: true,
      last_execution_at: null,
      execution_count: 0,
    });
    assert.deepEqual(await read(acme, id), created);
  });

  test('a payload in a template keeps its bytes, header values are never shown', async () => {
    const payload = '{"n":12345678901234567890, "e" : [ ],"f":1.0}';
    const raw = `{"cron":"0 0 1 1 *","timezone":"UTC","task_template":{"target":{"url":"${receiver.url}/x","headers":{"Authorization":"secret"}},"payload":${payload}}}`;
    const reply = await acme.ask('POST', '/v1/schedules', { raw });
    assert.equal(reply.status, 201);
    assert.ok(reply.text.includes(`"payload":${payload}`));
    const { id } = reply.json as Schedule;
    const again = (await acme.ask('GET', `/v1/schedules/${id}`)).text;
    assert.ok(again.includes(`"payload":${payload}`) && !again.includes('secret'));
    assert.ok(again.includes('"headers":{"Authorization":"***"}'));
  });

  test('runs are made, called at their time, listed under the schedule, and counted', async () => {
    const path = freshPath();
    const created = await create(acme, {
      cron: '* * * * * *',
      timezone: 'UTC',
      task_template: { target: receiver.at(path), payload: [1] },
    });
    await receiver.heard(path, 3);
    const { total, tasks } = await tasksOf(acme, created.id, '?status=completed');
    assert.ok(total >= 2);
    const times = tasks.map(({ scheduled_for }) => scheduled_for);
    assert.deepEqual(times, times.toSorted().reverse());
    assert.equal(new Set(times).size, times.length);
    const [task] = tasks;
    assert.ok(task);
    const { id, scheduled_for, created_at, completed_at, result, ...rest } = task;
    assert.deepEqual(rest, {
      schedule_id: created.id,
      batch_id: null,
      status: 'completed',
      target: receiver.at(path),
      attempts: 1,
      payload: [1],
    });
    assert.ok(created_at < scheduled_for && scheduled_for <= (completed_at ?? ''));
    assert.equal(result?.status_code, 200);
    assert.equal((await acme.task(id)).scheduled_for, scheduled_for);
    for (const { at_ms, id: called } of receiver.to(path)) {
      const of = (await acme.task(called)).scheduled_for ?? '';
      assert.ok(at_ms >= Date.parse(of), 'never before its time');
    }
    const seen = await read(acme, created.id);
    assert.ok(seen.execution_count >= 3);
    assert.ok((seen.last_execution_at ?? '') >= scheduled_for);
    await ok(acme, 200, 'DELETE', `/v1/schedules/${created.id}`);
  });

  test('a batch template makes a batch a tick, in the list of batches too', async () => {
    const path = freshPath();
    const batch_template = {
      description: 'nightly',
      task_templates: [1, 2, 3].map((n) => ({ target: { url: receiver.at(path), method: 'PUT' }, payload: { n } })),
      options: { expiration: 0.5 },
      labels: { made: path.slice(1) },
      notifications: { on_finish: { url: receiver.at(`${path}-done`) } },
    };
    const created = await create(acme, { cron: '* * * * * *', timezone: 'UTC', batch_template });
    assert.deepEqual(created.batch_template, batch_template);
    await receiver.heard(path, 6);
    await acme.ask('PATCH', `/v1/schedules/${created.id}`, { body: { enabled: false } });
    const { batches } = await acme.batches(`?label.made=${path.slice(1)}`);
    assert.ok(batches.length >= 2);
    for (const { id } of batches) await acme.ended(id, 'completed');
    await receiver.heard(`${path}-done`, batches.length);
    assert.ok(batches.every(({ description, stats }) => description === 'nightly' && stats.total === 3));
    const { total, tasks } = await tasksOf(acme, created.id);
    const all = (await acme.batches(`?label.made=${path.slice(1)}`)).total;
    assert.equal(total, 3 * all);
    assert.deepEqual(
      tasks.slice(0, 3).map(({ payload }) => payload),
      [{ n: 3 }, { n: 2 }, { n: 1 }],
    );
    assert.ok(tasks.every(({ target, batch_id }) => target === receiver.at(path) && batch_id?.startsWith('batch_')));
    const page = await tasksOf(acme, created.id, '?limit=2&offset=2');
    assert.deepEqual(page.tasks, tasks.slice(2, 4));
  });

  test('what is wrong with a schedule is said, by its code and its place', async () => {
    const body = { ...YEARLY, task_template: template() };
    const refused = (status: number, code: string, more: object) =>
      acme.refused(status, code, 'POST', '/v1/schedules', { body: { ...body, ...more } });
    assert.deepEqual((await refused(400, 'invalid_cron', { cron: '* * *' })).details, { cron: '* * *' });
    for (const cron of ['', '*/100 * * * *', 'H * * * *', '0 0 * * SAT-SUN']) await refused(400, 'invalid_cron', { cron });
    assert.deepEqual((await refused(400, 'invalid_timezone', { timezone: 'local' })).details, { timezone: 'local' });
    assert.deepEqual((await refused(400, 'cron_never_fires', { cron: '0 0 30 2 *' })).details, { cron: '0 0 30 2 *' });
    const paths = async (more: object): Promise<unknown> =>
      ((await refused(400, 'validation_error', more)).details['errors'] as { path: string }[]).map(({ path }) => path);
    assert.deepEqual(await paths({ start_at: '2030-01-02T00:00:00Z', end_at: '2030-01-01T00:00:00Z' }), ['/end_at']);
    assert.deepEqual(await paths({ task_template: undefined }), ['/task_template']);
    assert.deepEqual(await paths({ cron: undefined, timezone: undefined, task_template: undefined }), [
      '/task_template',
      '/cron',
      '/timezone',
    ]);
    assert.deepEqual(await paths({ batch_template: { task_templates: [template()] } }), ['/batch_template']);
    assert.deepEqual(await paths({ task_template: { target: 'ftp://x/' } }), ['/task_template/target']);
    assert.deepEqual(await paths({ task_template: { ...template(), execute_after: inSeconds(60) } }), ['/task_template/execute_after']);
    assert.deepEqual(await paths({ cron: 5, timezone: undefined, extra: 1 }), ['/timezone', '/extra', '/cron']);
    const batch = (more: object) => ({
      task_template: undefined,
      batch_template: { task_templates: [template(), { ...template(), ...more }] },
    });
    assert.deepEqual(await paths(batch({ target: { url: 'http://u:p@x/' } })), ['/batch_template/task_templates/1/target/url']);
    assert.deepEqual((await refused(400, 'target_not_allowed', { task_template: { target: FORBIDDEN_URL } })).details, {
      path: '/task_template/target',
    });
    assert.deepEqual((await refused(400, 'target_not_allowed', batch({ target: { url: FORBIDDEN_URL } }))).details, {
      path: '/batch_template/task_templates/1/target/url',
    });
    const limited = await refused(400, 'rate_limiter_not_found', batch({ rate_limiter: 'no-such' }));
    assert.equal(limited.details['rate_limiter'], 'no-such');
    const notified = { task_templates: [template()], notifications: { on_finish: { url: FORBIDDEN_URL } } };
    await refused(400, 'target_not_allowed', { task_template: undefined, batch_template: notified });
  });

  test('a change answers the id and what was sent, nothing else, and null clears', async () => {
    const { id } = await create(acme, { ...YEARLY, task_template: template(), start_at: '2030-01-01T00:00:00Z' });
    const patch = async (body: object): Promise<object> => {
      const { id: same, ...rest } = await ok<Record<string, unknown>>(acme, 200, 'PATCH', `/v1/schedules/${id}`, body);
      assert.equal(same, id);
      return rest;
    };
    assert.deepEqual(await patch({}), {});
    assert.deepEqual(await patch({ enabled: false }), { enabled: false });
    assert.deepEqual([(await read(acme, id)).status, (await read(acme, id)).next_execution_at], ['disabled', null]);
    assert.deepEqual(await patch({ enabled: true, cron: '0 12 * * *' }), { enabled: true, cron: '0 12 * * *' });
    assert.equal((await read(acme, id)).next_execution_at, '2030-01-01T12:00:00.000Z');
    assert.deepEqual(await patch({ timezone: 'Asia/Tokyo', end_at: '2030-06-01T00:00:00+09:00' }), {
      timezone: 'Asia/Tokyo',
      end_at: '2030-05-31T15:00:00.000Z',
    });
    assert.deepEqual(await patch({ start_at: null, end_at: null }), { start_at: null, end_at: null });
    const seen = await read(acme, id);
    assert.deepEqual([seen.start_at, seen.end_at, seen.updated_at > seen.created_at], [undefined, undefined, true]);
    const batch_template = { task_templates: [{ target: { url: receiver.url, headers: { 'X-Key': 'secret' } } }] };
    const masked = { task_templates: [{ target: { url: receiver.url, headers: { 'X-Key': '***' } } }] };
    assert.deepEqual(await patch({ batch_template }), { batch_template: masked });
    const switched = await read(acme, id);
    assert.deepEqual([switched.batch_template, switched.task_template], [masked, undefined]);
    const refused = (code: string, body: object) => acme.refused(400, code, 'PATCH', `/v1/schedules/${id}`, { body });
    await refused('validation_error', { task_template: template(), batch_template });
    await refused('validation_error', { start_at: '2031-01-01T00:00:00Z', end_at: '2030-01-01T00:00:00Z' });
    await refused('validation_error', { status: 'disabled' });
    await refused('invalid_cron', { cron: 'never' });
    await refused('invalid_timezone', { timezone: 'Moon' });
    await refused('cron_never_fires', { cron: '0 0 31 2 *' });
    await refused('target_not_allowed', { task_template: { target: FORBIDDEN_URL } });
    await patch({ end_at: '2030-01-01T00:00:00Z' });
    const late = await refused('validation_error', { start_at: '2031-01-01T00:00:00Z' });
    assert.deepEqual(late.details['errors'], [{ path: '/start_at', message: 'must not be after end_at' }]);
  });

  test('changes made at once are all made', async () => {
    const { id } = await create(acme, { ...YEARLY, task_template: template() });
    const path = `/v1/schedules/${id}`;
    const minutes = Array.from({ length: 16 }, (_, i) => i);
    await Promise.all(minutes.map((i) => ok(acme, 200, 'PATCH', path, { cron: `${i} 0 1 1 *` })));
    const times = Array.from({ length: 8 }, (_, i) => inSeconds(3_600 + i));
    await Promise.all(
      times.flatMap((start_at) => [{ start_at }, { timezone: 'Asia/Tokyo' }]).map((body) => ok(acme, 200, 'PATCH', path, body)),
    );
    const seen = await read(acme, id);
    assert.deepEqual([seen.timezone, times.includes(seen.start_at ?? '')], ['Asia/Tokyo', true]);
  });

  test('after its end a schedule is active with nothing to come', async () => {
    const { status, next_execution_at } = await create(acme, { ...YEARLY, task_template: template(), end_at: '2026-01-01T00:00:00Z' });
    assert.deepEqual([status, next_execution_at], ['active', null]);
  });

  test('lists are newest first, filtered exactly, without last_execution_at, and of one account', async () => {
    const { lists } = client;
    const made: string[] = [];
    for (const enabled of [true, false, true]) made.unshift((await create(lists, { ...YEARLY, task_template: template(), enabled })).id);
    const ids = async (query: string): Promise<[number, string[]]> => {
      const { total, schedules: items } = await ok<ScheduleList>(lists, 200, 'GET', `/v1/schedules${query}`);
      assert.ok(items.every((item) => !('last_execution_at' in item)));
      return [total, items.map(({ id }) => id)];
    };
    const [third = '', second = '', first = ''] = made;
    assert.deepEqual(await ids(''), [3, [third, second, first]]);
    assert.deepEqual(await ids('?limit=1&offset=1'), [3, [second]]);
    assert.deepEqual(await ids('?status=active'), [2, [third, first]]);
    assert.deepEqual(await ids('?enabled=false'), [1, [second]]);
    assert.deepEqual(await ids('?enabled=true&status=active'), [2, [third, first]]);
    assert.deepEqual(await ids('?enabled=true&status=disabled'), [0, []]);
    for (const query of ['?status=deleted', '?enabled=yes', '?limit=0', '?limit=1001', '?x=1']) {
      await lists.refused(400, 'validation_error', 'GET', `/v1/schedules${query}`);
    }
  });

  test('tasks of many runs are listed newest first, page by page', async () => {
    const target = receiver.at(freshPath());
    const { id } = await create(acme, { ...YEARLY, task_template: { target, ...ONCE } });
    const made: string[] = [];
    for (let n = 0; n < 20; n++) made.unshift((await ok<ScheduleRun>(acme, 201, 'POST', `/v1/schedules/${id}/trigger`)).task_id ?? '');
    const ids = async (query: string): Promise<[number, string[]]> => {
      const { total, tasks } = await tasksOf(acme, id, query);
      return [total, tasks.map((task) => task.id)];
    };
    assert.deepEqual(await ids(''), [20, made]);
    assert.deepEqual(await ids('?limit=1000'), [20, made]);
    assert.deepEqual(await ids('?limit=9&offset=9'), [20, made.slice(9, 18)]);
  });

  test('deleting answers once, then the schedule is gone and what it made is not', async () => {
    const path = freshPath();
    const { id } = await create(acme, { ...YEARLY, task_template: { target: receiver.at(path), ...ONCE } });
    const { task_id } = await ok<ScheduleRun>(acme, 201, 'POST', `/v1/schedules/${id}/trigger`);
    assert.deepEqual(await ok(acme, 200, 'DELETE', `/v1/schedules/${id}`), { id, status: 'deleted' });
    for (const [method, tail] of [
      ['GET', ''],
      ['DELETE', ''],
      ['GET', '/tasks'],
      ['GET', '/preview'],
      ['POST', '/trigger'],
    ] as const) {
      assert.deepEqual((await acme.refused(404, 'schedule_not_found', method, `/v1/schedules/${id}${tail}`)).details, { schedule_id: id });
    }
    await acme.refused(404, 'schedule_not_found', 'PATCH', `/v1/schedules/${id}`, { body: {} });
    await acme.taskWhen(task_id ?? '', ({ status }) => status === 'completed');
  });

  test("another account's schedule is nowhere to be seen, and scopes are kept", async () => {
    const { id } = await create(acme, { ...YEARLY, task_template: template() });
    for (const [method, tail] of [
      ['GET', ''],
      ['DELETE', ''],
      ['GET', '/tasks'],
      ['GET', '/preview'],
      ['POST', '/trigger'],
    ] as const) {
      await rival.refused(404, 'schedule_not_found', method, `/v1/schedules/${id}${tail}`);
    }
    await rival.refused(404, 'schedule_not_found', 'PATCH', `/v1/schedules/${id}`, { body: { enabled: 5 } });
    await acme.refused(404, 'schedule_not_found', 'GET', '/v1/schedules/sched_x');
    assert.equal((await ok<ScheduleList>(rival, 200, 'GET', '/v1/schedules')).total, 0);
    await scoped.read.refused(403, 'forbidden', 'POST', '/v1/schedules', { body: { ...YEARLY, task_template: template() } });
    await scoped.read.refused(403, 'forbidden', 'DELETE', `/v1/schedules/${id}`);
    assert.equal((await read(scoped.read, id)).id, id);
  });

  test('a preview shows what comes strictly after a time, in local time too, also of a disabled schedule', async () => {
    const { id } = await create(acme, {
      cron: '30 2 * * *',
      timezone: 'Europe/Berlin',
      task_template: template(),
      enabled: false,
      start_at: '2026-12-01T00:00:00Z',
      end_at: '2027-03-29T00:30:00Z',
    });
    const preview = (query: string): Promise<SchedulePreview> => ok(acme, 200, 'GET', `/v1/schedules/${id}/preview${query}`);
    const { schedule_id, executions } = await preview('?start_from=2027-03-26T01:30:00Z');
    assert.equal(schedule_id, id);
    assert.deepEqual(executions, [
      { scheduled_for: '2027-03-27T01:30:00.000Z', local_time: '2027-03-27T02:30:00.000+01:00' },
      { scheduled_for: '2027-03-28T01:30:00.000Z', local_time: '2027-03-28T03:30:00.000+02:00' },
      { scheduled_for: '2027-03-29T00:30:00.000Z', local_time: '2027-03-29T02:30:00.000+02:00' },
    ]);
    assert.equal((await preview('')).executions.length, 10);
    assert.equal((await preview('?start_from=2020-01-01T00:00:00Z&limit=1')).executions[0]?.scheduled_for, '2026-12-01T01:30:00.000Z');
    assert.equal((await preview('?limit=100')).executions.length, 100);
    const last = new URLSearchParams({ cron: '0 12 * * *', timezone: 'Pacific/Kiritimati', start_from: '9999-12-30T00:00:00Z' });
    assert.deepEqual((await ok<CronPreview>(acme, 200, 'GET', `/v1/schedules/preview?${last}`)).executions, [
      { scheduled_for: '9999-12-30T22:00:00.000Z', local_time: '9999-12-31T12:00:00.000+14:00' },
    ]);
    for (const query of ['?limit=101', '?limit=0', '?start_from=yesterday', '?start_from=2027-02-30T00:00:00Z']) {
      await acme.refused(400, 'validation_error', 'GET', `/v1/schedules/${id}/preview${query}`);
    }
  });

  test('a list in an expression may name a time twice: it fires once', async () => {
    const { id } = await create(acme, { cron: '*/20,*/30 4 * * *', timezone: 'UTC', task_template: template(), enabled: false });
    const path = `/v1/schedules/${id}/preview?start_from=2027-01-01T00:00:00Z&limit=5`;
    const { executions } = await ok<SchedulePreview>(acme, 200, 'GET', path);
    assert.deepEqual(
      executions.map(({ scheduled_for }) => scheduled_for.slice(8, 16)),
      ['01T04:00', '01T04:20', '01T04:30', '01T04:40', '02T04:00'],
    );
  });

  test('an expression that no schedule has yet is previewed too, and refused as a create would be', async () => {
    const path = (given: Record<string, string>): string => `/v1/schedules/preview?${new URLSearchParams(given)}`;
    const given = { cron: '30 2 * * MON-FRI', timezone: 'Europe/Berlin', start_from: '2027-03-25T01:30:00Z', limit: '3' };
    const { id } = await create(acme, { cron: given.cron, timezone: given.timezone, task_template: template() });
    const { executions } = await ok<CronPreview>(scoped.read, 200, 'GET', path(given));
    assert.deepEqual(executions, [
      { scheduled_for: '2027-03-26T01:30:00.000Z', local_time: '2027-03-26T02:30:00.000+01:00' },
      { scheduled_for: '2027-03-29T00:30:00.000Z', local_time: '2027-03-29T02:30:00.000+02:00' },
      { scheduled_for: '2027-03-30T00:30:00.000Z', local_time: '2027-03-30T02:30:00.000+02:00' },
    ]);
    const stored = await ok<SchedulePreview>(acme, 200, 'GET', `/v1/schedules/${id}/preview?start_from=${given.start_from}&limit=3`);
    assert.deepEqual(executions, stored.executions);
    assert.equal((await ok<CronPreview>(acme, 200, 'GET', path({ cron: '@hourly', timezone: 'UTC' }))).executions.length, 10);
    const refused = (code: string, more: object) => acme.refused(400, code, 'GET', path({ ...given, ...more }));
    assert.deepEqual((await refused('invalid_cron', { cron: '* * *' })).details, { cron: '* * *' });
    assert.deepEqual((await refused('invalid_timezone', { timezone: 'local' })).details, { timezone: 'local' });
    assert.deepEqual((await refused('cron_never_fires', { cron: '0 0 30 2 *' })).details, { cron: '0 0 30 2 *' });
    for (const more of [{ limit: '101' }, { start_from: 'soon' }, { cron: '*'.repeat(257) }, { extra: '1' }])
      await refused('validation_error', more);
    await acme.refused(400, 'validation_error', 'GET', '/v1/schedules/preview?timezone=UTC');
    await acme.refused(405, 'method_not_allowed', 'DELETE', '/v1/schedules/preview');
  });

  test('a trigger makes one run now, of a disabled schedule too', async () => {
    const path = freshPath();
    const { id } = await create(acme, { ...YEARLY, task_template: { target: receiver.at(path) }, enabled: false });
    const run = await ok<ScheduleRun>(acme, 201, 'POST', `/v1/schedules/${id}/trigger`);
    assert.deepEqual([run.schedule_id, run.batch_id], [id, null]);
    await acme.taskWhen(run.task_id ?? '', ({ status }) => status === 'completed');
    assert.equal((await acme.task(run.task_id ?? '')).scheduled_for, run.scheduled_for);
    const { execution_count, last_execution_at } = await read(acme, id);
    assert.deepEqual([execution_count, last_execution_at], [1, run.scheduled_for]);
    await ok(acme, 200, 'PATCH', `/v1/schedules/${id}`, { batch_template: { task_templates: [{ target: receiver.at(path) }] } });
    const second = await ok<ScheduleRun>(acme, 201, 'POST', `/v1/schedules/${id}/trigger`);
    assert.equal(second.task_id, null);
    await acme.ended(second.batch_id ?? '', 'completed');
    assert.equal((await tasksOf(acme, id)).total, 2);
  });

  test('Idempotency-Key: the same create and the same trigger happen once', async () => {
    const body = { ...YEARLY, task_template: template() };
    const headers = { 'idempotency-key': `schedule-${freshPath()}` };
    const first = await acme.ask('POST', '/v1/schedules', { body, headers });
    const again = await acme.ask('POST', '/v1/schedules', { body, headers });
    assert.deepEqual([again.status, again.text, again.headers['idempotent-replayed']], [201, first.text, 'true']);
    await acme.refused(422, 'idempotency_key_reused', 'POST', '/v1/schedules', { body: { ...body, cron: '0 0 2 1 *' }, headers });
    const { id } = first.json as Schedule;
    const trigger = () => acme.ask('POST', `/v1/schedules/${id}/trigger`, { headers: { 'idempotency-key': `trigger-${id}` } });
    const [one, two] = [await trigger(), await trigger()];
    assert.deepEqual([one.status, two.status, two.text], [201, 201, one.text]);
    await until(async () => (await read(acme, id)).execution_count === 1, 5_000, 'the one run to be counted');
  });
}
