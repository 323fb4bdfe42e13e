// Commands that ask the service: each does what its endpoint does, and says it to people and to programs.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Batch, BatchList, Schedule, SchedulePreview, TaskList, TaskOutcome } from '../../src/schema/types.gen.ts';
import { api } from '../helpers/api.ts';
import { startEngine, TOKENS } from '../helpers/engine.ts';
import { startReceiver } from '../helpers/receiver.ts';
import { startRedis } from '../helpers/redis.ts';
import { begin, freshDir, sluice } from './sluice.ts';

const { path } = await startRedis();
const receiver = await startReceiver();
const engine = await startEngine({ redis_url: `unix://${path}` });
const client = api(engine, TOKENS.acme);
const env = { SLUICE_URL: engine.url, SLUICE_TOKEN: TOKENS.acme };
const dir = freshDir();

const ran = (args: string, more: Record<string, string> = {}) => sluice(args.split(' '), { ...env, ...more });

async function json<T>(args: string): Promise<T> {
  const { code, out, err } = await ran(`${args} --json`);
  assert.equal(code, 0, err);
  return JSON.parse(out) as T;
}

/** An address on which nobody listens. */
async function nobody(): Promise<string> {
  const server = createServer();
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address() as AddressInfo;
  await new Promise((done) => server.close(done));
  return `http://127.0.0.1:${port}`;
}

test('a batch is listed, shown, its failed tasks too, run again and deleted', async () => {
  receiver.at('/flaky', { status: 410 }, { status: 200 });
  const tasks = [{ target: `${receiver.url}/flaky` }, { target: `${receiver.url}/fine` }];
  const { id } = await client.create({ tasks, description: 'Of the test', labels: { job: 'b' } });
  await client.ended(id, 'failed');
  assert.match((await ran(`batch get ${id}`)).out, /^status +failed$/m);
  assert.deepEqual((await json<Batch>(`batch get ${id}`)).stats.failed, 1);
  assert.match(
    (await ran('batch list --status failed --label job=b')).out,
    new RegExp(`^${id} +failed +2 +0 +1 +1 +0 .* Of the test$`, 'm'),
  );
  assert.equal((await json<BatchList>('batch list --label job=none')).total, 0);
  assert.match((await ran(`batch tasks ${id} --status failed`)).out, /failed +1 +410 .*\/flaky$/m);
  const first = await json<TaskList>(`batch tasks ${id} --limit 1`);
  assert.equal(first.tasks.length, 1);
  const more = await ran(`batch tasks ${id} --limit 1`);
  assert.equal(more.err, `There are more: --cursor ${first.next_cursor}\n`);
  const rest = await json<TaskList>(`batch tasks ${id} --limit 1 --cursor ${first.next_cursor}`);
  assert.deepEqual([rest.tasks.map((task) => task.status), rest.next_cursor], [['completed'], null]);
  const skipped = await json<TaskList>(`batch tasks ${id} --offset 1`);
  assert.deepEqual([skipped.tasks, 'next_cursor' in skipped], [rest.tasks, false]);
  const results = async (more = ''): Promise<TaskOutcome[]> => {
    const { out } = await ran(`batch results ${id}${more}`);
    return out.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line) as TaskOutcome]));
  };
  assert.deepEqual(
    (await results()).map(({ index, status }) => [index, status]),
    [
      [0, 'failed'],
      [1, 'completed'],
    ],
  );
  assert.deepEqual(
    (await results(' --start 1')).map(({ index }) => index),
    [1],
  );
  assert.match((await ran(`batch retry ${id}`)).out, new RegExp(`^${id} is processing|pending`));
  await client.ended(id, 'completed');
  assert.equal((await ran(`batch delete ${id}`)).code, 0);
  const gone = await ran(`batch get ${id}`);
  assert.deepEqual([gone.code, gone.err], [1, 'No batch has this id.\n']);
});

test('watch ends with the batch, and its exit code says how', async () => {
  receiver.at('/later', { hold: true });
  const { id } = await client.create({ tasks: [{ target: `${receiver.url}/later` }] });
  const watching = begin(['batch', 'watch', id, '--tasks', '--json'], env);
  await receiver.heard('/later', 1);
  const started = new Promise((done) => watching.child.stdout?.once('data', done));
  await started;
  receiver.release('/later', false);
  const { code, out, err } = await watching.ended;
  assert.equal(code, 0, err);
  const frames = out
    .trim()
    .split('\n')
    .map((line) => (JSON.parse(line) as { type: string }).type);
  assert.deepEqual([frames[0], frames.includes('task'), frames.at(-1)], ['snapshot', true, 'finished']);

  const cancelled = await client.create({
    tasks: [{ target: `${receiver.url}/never`, execute_after: new Date(Date.now() + 3_600_000).toISOString() }],
  });
  const other = begin(['batch', 'watch', cancelled.id], env);
  assert.match((await ran(`batch cancel ${cancelled.id}`)).out, /is cancelled\.$/m);
  const end = await other.ended;
  assert.deepEqual([end.code, end.out], [4, `${cancelled.id} cancelled: 1: 0 pending, 0 completed, 0 failed, 1 cancelled\n`]);
  assert.equal((await ran(`batch cancel ${cancelled.id}`)).code, 0);
});

test('a schedule is made, previewed, triggered, listed, disabled and deleted', async () => {
  const made = await sluice(
    [
      'schedule',
      'create',
      '--cron',
      '0 3 * * *',
      '--timezone',
      'Europe/Berlin',
      '--target',
      `${receiver.url}/tick`,
      '--payload',
      '{"a":1}',
      '--json',
    ],
    env,
  );
  assert.equal(made.code, 0, made.err);
  const { id } = JSON.parse(made.out) as Schedule;
  const preview = await json<SchedulePreview>(`schedule preview ${id} --limit 2 --from 2027-03-26T00:00:00Z`);
  assert.deepEqual(
    preview.executions.map(({ scheduled_for }) => scheduled_for),
    ['2027-03-26T02:00:00.000Z', '2027-03-27T02:00:00.000Z'],
  );
  assert.match((await ran(`schedule trigger ${id}`)).out, /^task_/);
  const [call] = await receiver.heard('/tick', 1);
  assert.equal(call?.body.toString(), '{"a":1}');
  assert.match((await ran(`schedule disable ${id}`)).out, /is disabled/);
  assert.match(
    (await ran('schedule list --status disabled')).out,
    new RegExp(`^${id} +disabled +0 3 \\* \\* \\* +Europe/Berlin +never +\\d+ +http`, 'm'),
  );
  assert.match((await ran(`schedule get ${id}`)).out, /^cron +0 3 \* \* \* \(Europe\/Berlin\)$/m);
  assert.equal((await ran(`schedule delete ${id}`)).code, 0);
  assert.equal((await ran(`schedule get ${id}`)).code, 1);
});

test('a schedule may come from a file, and what is wrong with it is said', async () => {
  const file = join(dir, 'schedule.json');
  const task_templates = [{ target: `${receiver.url}/x` }];
  writeFileSync(file, JSON.stringify({ cron: '@hourly', timezone: 'UTC', batch_template: { task_templates } }));
  const made = await sluice(['schedule', 'create', '-f', file], env);
  assert.deepEqual([made.code, /^calls +a batch of 1$/m.test(made.out)], [0, true], made.err);
  writeFileSync(file, '{"cron":"61 * * * *","timezone":"UTC","task_template":{"target":"http://example.com"}}');
  const wrong = await sluice(['schedule', 'create', '-f', file, '--json'], env);
  assert.deepEqual([wrong.code, (JSON.parse(wrong.err) as { error: { code: string } }).error.code], [1, 'invalid_cron']);
  assert.equal((await sluice(['schedule', 'create', '-f', file, '--cron', 'x'], env)).code, 2);
  assert.equal((await sluice(['schedule', 'create'], env)).code, 2);
});

test('a rate limiter is made, shown by its name, paused, resumed, reset and deleted', async () => {
  const made = await sluice(
    ['limiter', 'create', '--name', 'of-the-test', '--type', 'window', '--config', '{"limit":5,"interval":60}', '--json'],
    env,
  );
  assert.equal(made.code, 0, made.err);
  const { id } = JSON.parse(made.out) as { id: string };
  const tasks = Array.from({ length: 7 }, () => ({ target: `${receiver.url}/limited`, rate_limiter: 'of-the-test' }));
  await client.create({ tasks });
  await receiver.heard('/limited', 5);
  assert.match((await ran('limiter usage of-the-test')).out, /^waiting +2$/m);
  assert.match((await ran(`limiter pause ${id}`)).out, /^paused +until it is resumed$/m);
  assert.match((await ran('limiter get of-the-test')).out, /^config +\{"limit":5,"interval":60\}$/m);
  assert.doesNotMatch((await ran('limiter resume of-the-test')).out, /^paused/m);
  assert.equal((await ran('limiter reset of-the-test')).code, 0);
  await receiver.heard('/limited', 7);
  assert.match((await ran('limiter list')).out, new RegExp(`^${id} +of-the-test +window`, 'm'));
  assert.equal((await ran('limiter delete of-the-test')).code, 0);
  const gone = await ran('limiter usage of-the-test');
  assert.deepEqual([gone.code, gone.err], [1, 'No rate limiter has the name of-the-test.\n']);
  assert.equal((await sluice(['limiter', 'create', '--name', 'x', '--type', 'window', '--config', '5'], env)).code, 2);
});

test('a wrong token is refused by the service, a missing one before anything is sent, and nobody there is exit code 3', async () => {
  const wrong = await ran('batch list', { SLUICE_TOKEN: 'nonsense' });
  assert.deepEqual([wrong.code, /access token/.test(wrong.err)], [1, true], wrong.err);
  const missing = await sluice(['batch', 'list'], { SLUICE_URL: 'http://example.com' }, { cwd: dir });
  assert.deepEqual([missing.code, /There is no access token/.test(missing.err)], [2, true]);
  const away = await sluice(['batch', 'list', '--url', await nobody(), '--token', 't'], {});
  assert.deepEqual([away.code, /does not answer: .*ECONNREFUSED/.test(away.err)], [3, true], away.err);
});

test('the token of the data directory is used, for this machine alone', async () => {
  const cwd = join(dir, 'place');
  mkdirSync(join(cwd, 'data'), { recursive: true });
  writeFileSync(join(cwd, 'data', 'token'), `${TOKENS.acme}\n`);
  assert.equal((await sluice(['batch', 'list'], { SLUICE_URL: engine.url }, { cwd })).code, 0);
  assert.equal((await sluice(['batch', 'list', '--url', 'http://example.com'], {}, { cwd })).code, 2);
});
