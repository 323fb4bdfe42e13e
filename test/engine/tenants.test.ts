// Two accounts on one engine: every endpoint of the OpenAPI document is tried with another account's ids. Whatever is asked, they are
// not there (404), nothing of them changes, and nothing of them shows: in lists, cursors, repeated keys, tickets, names.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { startRedis } from '../helpers/redis.ts';
import { openEvents, openSocket, Refused } from '../helpers/stream.ts';
import { freshPath, inSeconds, ONCE, openStage, tasksFor } from './stage.ts';

const { path: redis_path, redis } = await startRedis();
const stage = await openStage({ redis_url: `unix://${redis_path}` });
const { acme, rival } = stage.client;
const { receiver } = stage;

/** In everything that acme makes: wherever rival reads it, something leaked. */
const MARK = 'mark-of-acme';
/** Once in six years: nothing of a schedule moves meanwhile. */
const CRON = '0 0 29 2 *';

interface Operation {
  method: string;
  path: string;
  operationId: string;
  'x-scope': 'read' | 'write' | 'admin';
  requestBody?: unknown;
}

const operations = await readOperations();
const target = { url: receiver.at(freshPath()), headers: { 'x-mark': MARK } };

/** A valid body of every endpoint that takes one: a new endpoint has its line here. */
const BODIES: Record<string, object> = {
  createBatch: { tasks: [{ target, execute_after: inSeconds(3_600) }], description: MARK, labels: { of: MARK } },
  addTasks: { tasks: [{ target, execute_after: inSeconds(3_600) }] },
  createTask: { target, execute_after: inSeconds(3_600) },
  createLimiter: { name: `${MARK}-new`, type: 'window', config: { limit: 5, interval: 60 }, description: MARK },
  updateLimiter: { description: 'changed' },
  pauseLimiter: { duration: 60 },
  createSchedule: { cron: CRON, timezone: 'UTC', task_template: { target } },
  patchSchedule: { enabled: false },
};
const QUERIES: Record<string, string[]> = {
  getBatch: ['?verify=true'],
  previewCron: [`?cron=${encodeURIComponent(CRON)}&timezone=UTC`],
  streamBatch: ['?tasks=true'],
  streamBatchEvents: ['?tasks=true'],
};

/** What acme has, by the name of the parameter that says which. */
const ids: Record<string, string[]> = {};
/** Views of all of it. */
const views: string[] = [];

before(async () => {
  const far = { execute_after: inSeconds(3_600) };
  const post = async (path: string, body: object): Promise<{ id: string; task_id?: string }> => {
    const { status, json, text } = await acme.ask('POST', path, { body });
    assert.equal(status, 201, text);
    return json as { id: string };
  };
  const limiter = await post('/v1/rate-limiters', { ...BODIES['createLimiter'], name: MARK });
  const notifications = { on_finish: { url: receiver.at(freshPath()) } };
  const more = { description: MARK, labels: { of: MARK }, notifications };
  const open = await acme.create({ tasks: tasksFor(target.url, 3, { ...far, payload: MARK }), ...more });
  const limited = await acme.create({ tasks: tasksFor(target.url, 1, { ...far, rate_limiter: MARK }), ...more });
  const over = await acme.create({ tasks: tasksFor(receiver.at(freshPath(), { status: 500, body: MARK }), 2, ONCE), ...more });
  const single = await acme.createTask({ target, ...far });
  const schedule = await post('/v1/schedules', { ...BODIES['createSchedule'] });
  const batched = await post('/v1/schedules', {
    cron: CRON,
    timezone: 'UTC',
    batch_template: { task_templates: [{ target }], labels: { of: MARK } },
  });
  await acme.ask('POST', `/v1/schedules/${schedule.id}/trigger`);
  await acme.ended(over.id, 'failed');
  const log = await logOf(over.id);
  const tasks = [await acme.tasks(open.id), await acme.tasks(over.id)].flatMap((page) => page.tasks.map(({ id }) => id));
  ids['batch_id'] = [open.id, limited.id, over.id];
  ids['task_id'] = [single.id, ...tasks];
  ids['notification_id'] = log;
  ids['schedule_id'] = [schedule.id, batched.id];
  ids['rate_limiter_id'] = [limiter.id];
  for (const { path, method, operationId } of operations) {
    if (method === 'GET' && path.includes('{') && !/^stream|Usage$|preview/i.test(operationId)) views.push(...filled(path));
  }
});

/** The log when its try has ended. */
async function logOf(id: string): Promise<string[]> {
  for (;;) {
    const { json } = await acme.ask('GET', `/v1/batches/${id}/notifications`);
    const { notifications } = json as { notifications: { id: string; status: string }[] };
    if (notifications.length > 0 && notifications.every(({ status }) => status === 'delivered')) return notifications.map((one) => one.id);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

async function readOperations(): Promise<Operation[]> {
  const document = (await (await fetch(`${stage.engine.url}/openapi.json`)).json()) as { paths: Record<string, Record<string, Operation>> };
  const rows = Object.entries(document.paths).filter(([path]) => path.startsWith('/v1/'));
  return rows.flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([method, row]) =>
      row.operationId === undefined ? [] : [{ ...row, path, method: method.toUpperCase() }],
    ),
  );
}

/** A path with every combination of acme's ids. */
function filled(path: string): string[] {
  const [name] = /\{(\w+)\}/.exec(path)?.slice(1) ?? [];
  if (name === undefined) return [path];
  const known = ids[name];
  assert.ok(known, `${path}: acme has nothing that is named {${name}}`);
  return known.flatMap((id) => filled(path.replace(`{${name}}`, id)));
}

async function snapshot(): Promise<Map<string, string>> {
  const texts = new Map<string, string>();
  for (const path of views) texts.set(path, (await acme.ask('GET', path)).text);
  for (const path of ['/v1/batches', '/v1/schedules', '/v1/rate-limiters', '/v1/signing-secret']) {
    texts.set(path, (await acme.ask('GET', `${path}`)).text);
  }
  return texts;
}

/** No id and no mark of acme, not even the random part of one; but what was asked for, `asked`, may be repeated. */
function showsNothing(text: string, where: string, asked = ''): void {
  let shown = text;
  for (const part of asked.split(/[/?&=]/)) if (part.length > 6) shown = shown.replaceAll(part, '');
  assert.ok(!shown.includes(MARK), `${where} shows what acme wrote: ${text.slice(0, 500)}`);
  for (const id of Object.values(ids).flat())
    assert.ok(!shown.includes(id.replace(/^[a-z]+_/, '')), `${where} shows ${id}: ${text.slice(0, 500)}`);
}

test('every endpoint that names something is tried', () => {
  for (const { operationId, path, requestBody } of operations) {
    for (const [, name = ''] of path.matchAll(/\{(\w+)\}/g)) assert.ok(ids[name]?.length, `${path}: nothing is named {${name}}`);
    assert.equal(requestBody !== undefined, BODIES[operationId] !== undefined, `${operationId} takes a body, or does not`);
  }
});

test('another account’s resources are not there, and stay as they are', async (t) => {
  const before_all = await snapshot();
  let tried = 0;
  for (const { method, path, operationId } of operations.filter((row) => row.path.includes('{'))) {
    for (const [one, query] of filled(path).flatMap((each) =>
      ['', ...(QUERIES[operationId] ?? [])].map((query) => [each, query] as const),
    )) {
      const body = BODIES[operationId];
      const reply = await rival.ask(method, one + query, {
        ...(body === undefined ? {} : { body }),
        headers: { 'idempotency-key': `k-${operationId}` },
      });
      assert.equal(reply.status, 404, `${method} ${one}${query}: ${reply.text.slice(0, 300)}`);
      assert.match((reply.json as { error: { code: string } }).error.code, /_not_found$/);
      showsNothing(JSON.stringify([reply.text, reply.headers]), `${method} ${one}`, one);
      tried += 1;
    }
  }
  t.diagnostic(`${tried} requests`);
  assert.deepEqual(await snapshot(), before_all);
});

test('another account’s resources inside one’s own are not there', async () => {
  const { id } = await rival.create({ tasks: tasksFor(target.url, 1, { execute_after: inSeconds(3_600) }) });
  for (const notification of ids['notification_id'] ?? []) {
    await rival.refused(404, 'notification_not_found', 'POST', `/v1/batches/${id}/notifications/${notification}/redeliver`);
  }
});

test('no list, preview or secret shows anything of another account, with any cursor of that one', async () => {
  const lists = operations.filter(({ method, path }) => method === 'GET' && !path.includes('{'));
  for (const { path, operationId } of lists) {
    const query = QUERIES[operationId]?.[0] ?? '';
    showsNothing((await rival.ask('GET', path + query)).text, path);
    if (!/^list/.test(operationId)) continue;
    showsNothing((await rival.ask('GET', `${path}?limit=1000`)).text, path);
    const { next_cursor } = (await acme.ask('GET', `${path}?limit=1&cursor=`)).json as { next_cursor?: string };
    const cursor = next_cursor ?? ((await acme.ask('GET', `${path}?limit=1`)).json as { next_cursor?: string }).next_cursor;
    if (cursor !== undefined) showsNothing((await rival.ask('GET', `${path}?cursor=${cursor}`)).text, `${path} with a cursor`);
  }
  for (const status of ['pending', 'failed']) showsNothing((await rival.ask('GET', `/v1/batches?status=${status}`)).text, status);
  const labelled = await rival.ask('GET', `/v1/batches?label.of=${MARK}`);
  assert.deepEqual(labelled.json, { total: 0, batches: [] });
});

test('an Idempotency-Key is one account’s: the same one with the same body makes something new', async () => {
  for (const { path, operationId } of operations.filter(({ method, path }) => method === 'POST' && !path.includes('{'))) {
    const options = { body: BODIES[operationId], headers: { 'idempotency-key': `shared-${operationId}` } };
    if (options.body === undefined) continue;
    const mine = await acme.ask('POST', path, options);
    const theirs = await rival.ask('POST', path, options);
    assert.deepEqual([mine.status, theirs.status], [201, 201], `${path}: ${theirs.text}`);
    assert.equal(theirs.headers['idempotency-replayed'], undefined);
    assert.notEqual((mine.json as { id: string }).id, (theirs.json as { id: string }).id, path);
    assert.equal((await acme.ask('POST', path, options)).text, mine.text, 'and acme’s is answered as before');
  }
});

test('a limiter’s name, and its id, mean nothing to another account', async () => {
  for (const rate_limiter of [MARK, ...(ids['rate_limiter_id'] ?? [])]) {
    for (const [path, body] of [
      ['/v1/tasks', { target: target.url, rate_limiter }],
      ['/v1/batches', { tasks: [{ target: target.url, rate_limiter }] }],
      ['/v1/schedules', { cron: CRON, timezone: 'UTC', task_template: { target: target.url, rate_limiter } }],
    ] as const) {
      const { status, text } = await rival.ask('POST', path, { body });
      assert.equal(status, 400, text);
      showsNothing(text, path, rate_limiter);
    }
  }
  // The name is free for others.
  const mine = await rival.ask('POST', '/v1/rate-limiters', { body: { name: MARK, type: 'window', config: { limit: 1, interval: 1 } } });
  assert.equal(mine.status, 201);
  const { id } = mine.json as { id: string };
  assert.ok(!ids['rate_limiter_id']?.includes(id));
  assert.equal((await rival.ask('DELETE', `/v1/rate-limiters/${id}`)).status, 200);
  assert.equal((await acme.ask('GET', `/v1/rate-limiters/${ids['rate_limiter_id']?.[0]}`)).status, 200);
});

describe('a ticket for a stream', () => {
  test('opens its own batch alone, whoever has it', async () => {
    const { url } = stage.engine;
    const [mine = '', other = ''] = ids['batch_id'] ?? [];
    const theirs = await rival.create({ tasks: tasksFor(target.url, 1, { execute_after: inSeconds(3_600) }) });
    const { json } = await acme.ask('POST', `/v1/batches/${mine}/stream-tickets`);
    const { ticket } = json as { ticket: string };
    for (const id of [other, theirs.id]) {
      for (const open of [openSocket, openEvents]) {
        const path = `/v1/batches/${id}/${open === openSocket ? 'stream' : 'events'}?ticket=${ticket}`;
        await assert.rejects(open(url, path, null), (error: Refused) => {
          assert.equal(error.status, 401);
          showsNothing(JSON.stringify(error.body), path, path);
          return true;
        });
      }
    }
    const reading = await openSocket(url, `/v1/batches/${mine}/stream?ticket=${ticket}`, null);
    await reading.until((frame) => frame.type === 'snapshot');
    reading.close();
    await assert.rejects(openSocket(url, `/v1/batches/${mine}/stream?ticket=${ticket}`, null), Refused, 'once');
  });
});

describe('tokens', () => {
  test('without one every endpoint is 401, with a bad one too, and says nothing of what is there', async () => {
    for (const { method, path } of operations) {
      for (const one of filled(path).slice(0, 1)) {
        const nothing = await stage.nobody.ask(method, one);
        assert.equal(nothing.status, 401, `${method} ${one}`);
        showsNothing(nothing.text, one, one);
      }
    }
  });

  test('a scope that is too small is 403 at every endpoint, on ids that are there and on ids that are not', async () => {
    for (const { method, path, operationId, 'x-scope': scope } of operations) {
      const body = BODIES[operationId];
      const less = scope === 'write' ? [stage.scoped.read] : scope === 'admin' ? [stage.scoped.read, stage.scoped.write] : [];
      for (const client of less) {
        for (const one of [...filled(path).slice(0, 1), path.replace(/\{\w+\}/g, 'none')]) {
          const { status, text } = await client.ask(method, one, body === undefined ? {} : { body });
          assert.equal(status, 403, `${method} ${one}: ${text}`);
        }
      }
    }
  });
});

test('what is open to everybody shows nothing of anybody', async () => {
  for (const path of ['/metrics', '/healthz', '/readyz', '/openapi.json', '/']) {
    const text = await (await fetch(stage.engine.url + path)).text();
    showsNothing(text, path);
    assert.ok(!/\b(acme|rival)\b/.test(text), `${path} names an account`);
  }
  for (const line of stage.engine.logs()) assert.ok(!line.includes(MARK), `the log shows ${line}`);
});

test('no key in Redis has what a caller chose in its name', async () => {
  const names = await redis.keys('*');
  for (const name of names) assert.ok(!/mark-of|acme|rival|shared-|k-create/.test(name), name);
});
