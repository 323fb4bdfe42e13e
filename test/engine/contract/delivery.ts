// Section 3 of the contract, as receivers see callbacks: the request, its signature, and when it comes.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import type { Client } from '../../helpers/api.ts';
import type { ReceivedCall } from '../../helpers/receiver.ts';
import { until } from '../../helpers/redis.ts';
import { AT_ONCE, freshPath, inSeconds, ONCE, type Stage } from '../stage.ts';

interface Secret {
  id: string;
  secret: string;
  created_at: string;
  expires_at: string | null;
}

export function delivery({ client, receiver }: Stage): void {
  const { acme } = client;
  const one = async (task: object): Promise<ReceivedCall> => {
    const path = freshPath();
    const url = receiver.at(path);
    const { id } = await acme.create({ tasks: [{ target: { url, method: 'POST' }, ...task }] });
    const [call] = await receiver.heard(path, 1);
    await acme.ended(id, 'completed');
    return call as ReceivedCall;
  };
  const secrets = async (who: Client): Promise<Secret[]> => {
    const { json, status } = await who.ask('GET', '/v1/signing-secret');
    assert.equal(status, 200);
    return (json as { secrets: Secret[] }).secrets;
  };
  const verify = (secret: string, call: ReceivedCall): void => {
    new Webhook(secret).verify(call.body, call.headers as Record<string, string>);
  };

  test('a callback carries the headers of the contract and the payload byte for byte', async () => {
    const path = freshPath();
    const payload = '{ "n" : 1.0, "big":12345678901234567890, "e":1e2,"e":2, "u":"\\u00e9é" }';
    const created = await acme.ask('POST', '/v1/batches', {
      raw: `{"tasks":[{"target":"${receiver.at(path)}?q=a%20b","payload":${payload}}]}`,
    });
    const { id } = created.json as { id: string };
    await until(() => receiver.to(`${path}?q=a%20b`).length === 1, 20_000, 'the call');
    const [call] = receiver.to(`${path}?q=a%20b`);
    assert.ok(call);
    const { headers } = call;
    assert.equal(call.body.toString(), payload);
    assert.equal(call.method, 'POST');
    assert.equal(headers['content-type'], 'application/json');
    assert.match(String(headers['user-agent']), /^Sluice\/\d+\.\d+\.\d+$/);
    assert.equal(headers['content-length'], String(Buffer.byteLength(payload)));
    assert.equal(headers['x-sluice-attempt'], '1');
    assert.equal(headers['x-sluice-batch-id'], id);
    const [task] = (await acme.tasks(id)).tasks;
    assert.equal(headers['webhook-id'], task?.id);
    assert.ok(Math.abs(Number(headers['webhook-timestamp']) * 1_000 - Date.now()) < 60_000);
    const [secret] = await secrets(acme);
    verify(secret?.secret ?? '', call);
    assert.throws(() => verify(secret?.secret ?? '', { ...call, body: Buffer.from('{}') }));
  });

  test('every method is sent, with a body for all but GET and HEAD', async () => {
    const [secret] = await secrets(acme);
    const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'];
    const paths = methods.map(() => freshPath());
    const { id } = await acme.create({
      tasks: methods.map((method, n) => ({ target: { url: receiver.at(paths[n] ?? ''), method }, payload: { n } })),
    });
    await acme.ended(id, 'completed');
    for (const [n, method] of methods.entries()) {
      const [call] = receiver.to(paths[n] ?? '');
      assert.ok(call);
      assert.equal(call.method, method);
      assert.equal(call.body.toString(), n < 2 ? '' : `{"n":${n}}`);
      verify(secret?.secret ?? '', call);
    }
  });

  test('a task without a payload sends an empty body, signed as such', async () => {
    const call = await one({});
    assert.equal(call.body.length, 0);
    assert.equal(call.headers['content-length'], '0');
    verify((await secrets(acme))[0]?.secret ?? '', call);
  });

  test('a target that is a string is sent as POST', async () => {
    const path = freshPath();
    await acme.create({ tasks: [{ target: receiver.at(path), payload: 1 }] });
    assert.equal((await receiver.heard(path, 1))[0]?.method, 'POST');
  });

  test('a caller’s headers are sent as given', async () => {
    const path = freshPath();
    const headers = { 'X-Key': 'a b', authorization: 'Bearer t', Accept: 'text/plain' };
    await acme.create({ tasks: [{ target: { url: receiver.at(path), headers } }] });
    const [call] = await receiver.heard(path, 1);
    for (const [name, value] of Object.entries(headers)) assert.equal(call?.headers[name.toLowerCase()], value);
  });

  test('a single task has no batch id header', async () => {
    const path = freshPath();
    const { id } = await acme.createTask({ target: receiver.at(path) });
    const [call] = await receiver.heard(path, 1);
    assert.equal(call?.id, id);
    assert.equal('x-sluice-batch-id' in (call?.headers ?? {}), false);
  });

  test('every attempt says its number under the same webhook-id', async () => {
    const path = freshPath();
    const url = receiver.at(path, { status: 500 }, { status: 503 }, {});
    const { id } = await acme.create({ tasks: [{ target: url, retry: AT_ONCE }] });
    await acme.ended(id, 'completed');
    const calls = receiver.to(path);
    assert.deepEqual(
      calls.map(({ attempt }) => attempt),
      [1, 2, 3],
    );
    assert.equal(new Set(calls.map((call) => call.id)).size, 1);
    assert.equal((await acme.tasks(id)).tasks[0]?.attempts, 3);
    for (const call of calls) verify((await secrets(acme))[0]?.secret ?? '', call);
  });

  test('execute_after: never before, soon after', async () => {
    const path = freshPath();
    const due_ms = Date.now() + 1_200;
    const { id } = await acme.create({ tasks: [{ target: receiver.at(path), execute_after: new Date(due_ms).toISOString() }] });
    assert.equal((await acme.tasks(id)).tasks[0]?.status, 'queued');
    const [call] = await receiver.heard(path, 1);
    const late_ms = (call?.at_ms ?? 0) - due_ms;
    assert.ok(late_ms >= 0 && late_ms < 1_500, `${late_ms} ms after it was due`);
  });

  test('execute_after: connections for many at a time are opened ahead of it', async (t) => {
    const ahead_ms: number[] = [];
    const opened_ms = new WeakMap<Socket, number>();
    const server = createServer(({ url = '', socket }, response) => {
      ahead_ms.push(Number(url.slice(1)) - (opened_ms.get(socket) ?? Number.NaN));
      response.setHeader('connection', 'close').end();
    });
    server.on('connection', (socket) => opened_ms.set(socket, Date.now()));
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    t.after(() => server.close());
    const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    // On a busy machine a task may be claimed after its time only.
    for (let tries = 0; tries < 60 && !ahead_ms.some((ms) => ms > 0); tries++) {
      const due_ms = Date.now() + 400;
      const task = { target: `${origin}/${due_ms}`, execute_after: new Date(due_ms).toISOString() };
      const { id } = await acme.create({ tasks: Array.from({ length: 8 }, () => task) });
      await acme.ended(id, 'completed');
    }
    assert.ok(Math.max(...ahead_ms) > 0, `opened so many ms ahead: ${ahead_ms.join(', ')}`);
  });

  test('valid_until: a task, or its next try, that would start later fails with expired', async () => {
    const path = freshPath();
    const { id } = await acme.create({
      tasks: [
        { target: receiver.at(path, { status: 500 }), valid_until: inSeconds(2), retry: { max_retries: 9, backoff: 'fixed', delay: 600 } },
        { target: receiver.at(freshPath()), valid_until: inSeconds(60) },
      ],
    });
    const ended = await acme.ended(id, 'failed');
    assert.deepEqual([ended.stats.completed, ended.stats.failed], [1, 1]);
    const [task] = (await acme.tasks(id)).tasks;
    assert.deepEqual([task?.status, task?.result?.error?.code, task?.attempts], ['failed', 'expired', 1]);
    assert.equal(receiver.to(path).length, 1);
  });

  test('valid_until: what was not started by then is never called', async () => {
    const path = freshPath();
    const due_ms = Date.now() + 500;
    const [execute_after, valid_until] = [due_ms, due_ms + 1].map((ms) => new Date(ms).toISOString());
    const task = { target: receiver.at(path), execute_after, valid_until };
    const { id } = await acme.create({ tasks: Array.from({ length: 200 }, () => task) });
    await acme.batchWhen(id, ({ stats }) => stats.pending === 0);
    const called = new Set(receiver.to(path).map((call) => call.id));
    for (const { id: task_id, status, attempts, result } of (await acme.tasks(id, '?limit=200')).tasks) {
      const seen = [status, attempts, result?.error?.code ?? null];
      assert.deepEqual(seen, called.has(task_id) ? ['completed', 1, null] : ['failed', 0, 'expired']);
    }
  });

  test('neighbours that differ in time-out, method and due time are each called once, in their time', async () => {
    const path = freshPath();
    const url = receiver.at(path);
    const due_ms = Date.now() + 1_000;
    const tasks = Array.from({ length: 1_200 }, (_, n) => ({
      target: { url, method: n % 3 === 0 ? 'PUT' : 'POST' },
      payload: n,
      timeout: 10 + (n % 5),
      ...(n % 4 === 0 ? { execute_after: new Date(due_ms + n).toISOString() } : {}),
    }));
    const { id } = await acme.create({ tasks });
    await acme.ended(id, 'completed');
    const calls = receiver.to(path);
    assert.deepEqual(
      calls.map(({ body }) => Number(body)).toSorted((a, b) => a - b),
      tasks.map(({ payload }) => payload),
    );
    for (const { body, method, at_ms } of calls) {
      const n = Number(body);
      assert.equal(method, n % 3 === 0 ? 'PUT' : 'POST');
      assert.ok(n % 4 > 0 || at_ms >= due_ms + n, `task ${n} came ${due_ms + n - at_ms} ms early`);
    }
  });

  test('an excerpt is the first 1,024 bytes of an answer that is text', async () => {
    const bodies = { long: 'é'.repeat(2_000), short: 'done', binary: Buffer.from([0, 1, 2, 255]), none: '' };
    const tasks = Object.values(bodies).map((body) => ({
      target: receiver.at(freshPath(), { body, headers: { 'content-type': 'application/x-any' } }),
    }));
    const { id } = await acme.create({ tasks });
    await acme.ended(id, 'completed');
    const excerpts = (await acme.tasks(id)).tasks.map(({ result }) => result?.response_excerpt ?? null);
    assert.deepEqual(excerpts, ['é'.repeat(512), 'done', null, null]);
  });

  test('the answer to a failed attempt shows while the task waits for the next', async () => {
    const { id } = await acme.createTask({ target: receiver.at(freshPath(), { status: 503, body: 'busy' }), retry: { delay: 600 } });
    const task = await acme.taskWhen(id, ({ attempts, status }) => attempts === 1 && status === 'queued');
    const { duration_ms = -1, ...result } = task.result ?? {};
    assert.deepEqual(result, { status_code: 503, error: { code: 'http_status', message: 'HTTP 503' }, response_excerpt: 'busy' });
    assert.ok(duration_ms >= 0);
  });

  test('after a rotation callbacks carry two signatures, the new secret’s and the old one’s', async () => {
    const who = client.rotator;
    const path = freshPath();
    const target = receiver.at(path);
    const before = await secrets(who);
    assert.deepEqual(before.map(Object.keys), [['id', 'secret', 'created_at', 'expires_at']]);
    assert.deepEqual(await secrets(who), before);
    const first = before[0] as Secret;
    assert.match(first.secret, /^whsec_[A-Za-z0-9+/=]{32,}$/);
    assert.equal(first.expires_at, null);
    await who.createTask({ target, ...ONCE });
    const [signed] = await receiver.heard(path, 1);
    assert.equal(String(signed?.headers['webhook-signature']).split(' ').length, 1);

    const rotated = ((await who.ask('POST', '/v1/signing-secret/rotate')).json as { secrets: Secret[] }).secrets;
    assert.equal(rotated.length, 2);
    const [fresh, old] = rotated as [Secret, Secret];
    assert.equal(fresh.expires_at, null);
    assert.equal(old.id, first.id);
    assert.ok(Math.abs(Date.parse(old.expires_at ?? '') - Date.now() - 24 * 3_600_000) < 60_000);
    assert.deepEqual(await secrets(who), rotated);
    await who.createTask({ target, ...ONCE });
    const call = (await receiver.heard(path, 2)).at(-1) as ReceivedCall;
    assert.equal(String(call.headers['webhook-signature']).split(' ').length, 2, 'the first call after the answer');
    verify(fresh.secret, call);
    verify(old.secret, call);

    const third = ((await who.ask('POST', '/v1/signing-secret/rotate')).json as { secrets: Secret[] }).secrets;
    assert.deepEqual(
      third.map(({ id }) => id),
      [third[0]?.id, fresh.id],
    );
  });
}
