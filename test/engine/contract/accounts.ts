// Section 2 of the contract: tokens from the command line, and accounts that know nothing of one another.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { api } from '../../helpers/api.ts';
import { until } from '../../helpers/redis.ts';
import { openEvents, openSocket } from '../../helpers/stream.ts';
import { freshPath, inSeconds, type Stage, tasksFor } from '../stage.ts';

interface TokenRow {
  id: string;
  account: string;
  scope: string;
  created_at: string;
  expires_at: string | null;
  revoked_at: string | null;
}

/** The contract's 5 s, and the time to ask once more. */
const REVOKED_MS_MAX = 5_250;

export function accounts({ client, engine, receiver }: Stage): void {
  const { acme, rival } = client;

  test('another account’s batches and tasks are not there, whatever is asked of them', async () => {
    const url = receiver.at(freshPath(), { status: 500 });
    const { id } = await acme.create({ tasks: tasksFor(url, 2, { execute_after: inSeconds(3_600) }) });
    const [task] = (await acme.tasks(id)).tasks;
    const single = await acme.createTask({ target: url, execute_after: inSeconds(3_600) });
    await rival.refused(404, 'batch_not_found', 'GET', `/v1/batches/${id}`);
    await rival.refused(404, 'batch_not_found', 'GET', `/v1/batches/${id}/tasks`);
    await rival.refused(404, 'batch_not_found', 'POST', `/v1/batches/${id}/tasks`, { body: { tasks: [{ target: url }] } });
    await rival.refused(404, 'batch_not_found', 'POST', `/v1/batches/${id}/cancel`);
    await rival.refused(404, 'batch_not_found', 'POST', `/v1/batches/${id}/release`);
    for (const one of [task?.id, single.id]) {
      await rival.refused(404, 'task_not_found', 'GET', `/v1/tasks/${one}`);
      await rival.refused(404, 'task_not_found', 'POST', `/v1/tasks/${one}/cancel`);
      await rival.refused(404, 'task_not_found', 'POST', `/v1/tasks/${one}/retry`);
    }
    const batch = await acme.batch(id);
    assert.deepEqual([batch.status, batch.stats.pending, batch.updated_at], ['pending', 2, batch.created_at]);
  });

  test('lists and signing secrets of two accounts have nothing in common', async () => {
    const url = receiver.at(freshPath());
    const [mine, theirs] = await Promise.all(
      [acme, rival].map((who) => who.create({ tasks: tasksFor(url, 1, { execute_after: inSeconds(3_600) }) })),
    );
    const [ours, others] = await Promise.all([acme, rival].map((who) => who.batches('?limit=1000')));
    const ids = (page: typeof ours) => new Set(page?.batches.map(({ id }) => id));
    assert.ok(ids(ours).has(mine?.id ?? '') && ids(others).has(theirs?.id ?? ''));
    assert.ok(!ids(ours).has(theirs?.id ?? '') && !ids(others).has(mine?.id ?? ''));
    const [one, other] = await Promise.all([acme, rival].map(async (who) => (await who.ask('GET', '/v1/signing-secret')).text));
    assert.notEqual(one, other);
  });

  test('a token of the command line works at once, is listed without its text, and ends within 5 s of its revocation', async () => {
    const account = 'cli-account';
    const text = await engine.cli('token', 'create', '--account', account, '--expires', '90d');
    assert.match(text, /^slk_[0-9A-Za-z]{40,}$/);
    const who = api(engine, text);
    assert.equal((await who.ask('GET', '/v1/batches')).status, 200);
    const rows = async (): Promise<TokenRow[]> => {
      const listed = await engine.cli('token', 'list', '--account', account, '--json');
      assert.ok(!listed.includes(text));
      return JSON.parse(listed) as TokenRow[];
    };
    const [row] = await rows();
    assert.deepEqual([row?.account, row?.scope, row?.revoked_at], [account, 'write', null]);
    assert.ok(Math.abs(Date.parse(row?.expires_at ?? '') - Date.now() - 90 * 86_400_000) < 60_000);
    await engine.cli('token', 'revoke', row?.id ?? '');
    await until(async () => (await who.ask('GET', '/v1/batches')).status === 401, REVOKED_MS_MAX, 'the token to end');
    assert.notEqual((await rows())[0]?.revoked_at, null);
  });

  test('streams that were opened with a token, or with a ticket of it, end with it, and its tickets open none any more', async () => {
    const account = 'watcher';
    const text = await engine.cli('token', 'create', '--account', account);
    const who = api(engine, text);
    const { id } = await who.create({ tasks: tasksFor(receiver.url, 1, { execute_after: inSeconds(3_600) }) });
    const path = `/v1/batches/${id}`;
    const ticket = async (): Promise<string> => {
      const { json } = await who.ask('POST', `${path}/stream-tickets`);
      return (json as { ticket: string }).ticket;
    };
    const readings = await Promise.all([
      openSocket(engine.url, `${path}/stream`, text),
      openSocket(engine.url, `${path}/stream?ticket=${await ticket()}`, null),
      openEvents(engine.url, `${path}/events`, text),
    ]);
    const late = await ticket();
    const [row] = JSON.parse(await engine.cli('token', 'list', '--account', account, '--json')) as TokenRow[];
    await engine.cli('token', 'revoke', row?.id ?? '');
    const began_ms = performance.now();
    assert.deepEqual(await Promise.all(readings.map(({ ended }) => ended)), [1008, 1008, 0]);
    assert.ok(performance.now() - began_ms < REVOKED_MS_MAX);
    await assert.rejects(openSocket(engine.url, `${path}/stream?ticket=${late}`, null), { status: 401 });
  });

  test('a token ends when it expires', async () => {
    const who = api(engine, await engine.cli('token', 'create', '--account', 'brief', '--expires', '3s'));
    assert.equal((await who.ask('GET', '/v1/batches')).status, 200);
    await until(async () => (await who.ask('GET', '/v1/batches')).status === 401, 8_000, 'the token to expire');
  });

  test('the command line shows and rotates the same signing secrets as the API', async () => {
    const text = await engine.cli('token', 'create', '--account', 'signer', '--scope', 'admin');
    const who = api(engine, text);
    const read = async (): Promise<unknown> => ((await who.ask('GET', '/v1/signing-secret')).json as { secrets: unknown }).secrets;
    const shown = JSON.parse(await engine.cli('secret', 'show', '--account', 'signer', '--json')) as object[];
    assert.deepEqual(await read(), shown);
    const rotated = JSON.parse(await engine.cli('secret', 'rotate', '--account', 'signer', '--json')) as object[];
    assert.equal(rotated.length, 2);
    assert.deepEqual(await read(), rotated);
  });
}
