// Sections 6 and 7 of the contract together: schedules whose templates name rate limiters. What ticks do where a limiter
// is gone is tried in test/schedules.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Limiter, Schedule, ScheduledTaskList } from '../../../src/schema/types.gen.ts';
import { freshPath, type Stage, tasksFor } from '../stage.ts';

const PATH = '/v1/rate-limiters';
const YEARLY = { cron: '0 0 1 1 *', timezone: 'UTC' } as const;

let made = 0;

export function limitedSchedules({ client, receiver }: Stage): void {
  const { acme } = client;

  const ask = async <T>(status: number, method: string, path: string, body?: unknown): Promise<T> => {
    const reply = await acme.ask(method, path, body === undefined ? {} : { body });
    assert.equal(reply.status, status, `${method} ${path}: ${reply.text}`);
    return reply.json as T;
  };
  const limiter = (name = `scheduled-${++made}`): Promise<Limiter> =>
    ask(201, 'POST', PATH, { name, type: 'window', config: { limit: 5, interval: 10 } });

  test('a trigger is refused once a limiter of the template is deleted, also where another has its name', async () => {
    const { id, name } = await limiter();
    const [free, limited] = [tasksFor(receiver.at(freshPath()), 1)[0], tasksFor(receiver.at(freshPath()), 1, { rate_limiter: name })[0]];
    const [task, batch] = await Promise.all([
      ask<Schedule>(201, 'POST', '/v1/schedules', { ...YEARLY, task_template: limited }),
      ask<Schedule>(201, 'POST', '/v1/schedules', { ...YEARLY, batch_template: { task_templates: [free, limited] } }),
    ]);
    const trigger = { headers: { 'idempotency-key': `trigger-${task.id}` } };
    const before = await acme.ask('POST', `/v1/schedules/${task.id}/trigger`, trigger);
    assert.equal(before.status, 201);
    await ask(200, 'DELETE', `${PATH}/${id}`);
    for (const again of [false, true]) {
      if (again) await limiter(name);
      for (const schedule of [task, batch]) {
        const refused = await acme.refused(400, 'rate_limiter_not_found', 'POST', `/v1/schedules/${schedule.id}/trigger`);
        assert.deepEqual(refused.details, { rate_limiter: name });
        const { total } = await ask<ScheduledTaskList>(200, 'GET', `/v1/schedules/${schedule.id}/tasks`);
        assert.equal(total, schedule === task ? 1 : 0);
      }
    }
    const replay = await acme.ask('POST', `/v1/schedules/${task.id}/trigger`, trigger);
    assert.deepEqual([replay.status, replay.text, replay.headers['idempotent-replayed']], [201, before.text, 'true']);
    await ask(200, 'PATCH', `/v1/schedules/${task.id}`, { task_template: limited });
    await ask(201, 'POST', `/v1/schedules/${task.id}/trigger`);
  });

  test('Idempotency-Key: a create is answered as before, though its limiter was deleted since', async () => {
    const { id, name } = await limiter();
    const tasks = tasksFor(receiver.at(freshPath()), 2, { rate_limiter: name });
    const bodies = [
      { ...YEARLY, task_template: tasks[0] },
      { ...YEARLY, batch_template: { task_templates: tasks, notifications: { on_finish: { url: receiver.url, headers: { a: 'b' } } } } },
    ];
    const create = (body: object) =>
      acme.ask('POST', '/v1/schedules', { body, headers: { 'idempotency-key': `limited-${id}-${bodies.indexOf(body as never)}` } });
    const before = await Promise.all(bodies.map(create));
    await ask(200, 'DELETE', `${PATH}/${id}`);
    const after = await Promise.all(bodies.map(create));
    for (const [i, { status, text, headers }] of after.entries()) {
      assert.deepEqual([status, text, headers['idempotent-replayed']], [201, before[i]?.text, 'true']);
    }
    await acme.refused(400, 'rate_limiter_not_found', 'POST', '/v1/schedules', { body: bodies[0] });
  });
}
