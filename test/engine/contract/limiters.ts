// Section 7 of the contract: rate limiters. How tasks name them is in limited-tasks.ts, what they limit is tried in limits*.test.ts.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Limiter, LimiterList, LimiterUsage } from '../../../src/schema/types.gen.ts';
import type { Client, Reply } from '../../helpers/api.ts';
import { freshPath, inSeconds, type Stage, tasksFor } from '../stage.ts';

const PATH = '/v1/rate-limiters';
const NO_LIMITER = 'rl_000000000000000000';
const TIMESTAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const DEFAULTS = { queue_timeout: 300, validity_timeout: 3600 };

/** A configuration of every form. */
const CONFIGS: [Limiter['type'], Record<string, number>][] = [
  ['window', { limit: 100, interval: 60 }],
  ['bucket', { limit: 100, interval: 60 }],
  ['bucket', { capacity: 20, refill_rate: 5, interval: 1 }],
  ['leaky', { capacity: 20, drain_rate: 5, interval: 1 }],
  ['points', { capacity: 20, refill_rate: 5, interval: 1 }],
  ['concurrent', { limit: 3 }],
  ['concurrent', { limit: 3, lock_timeout: 120 }],
];

let made = 0;

/** A name that no other test uses. */
function freshName(): string {
  made += 1;
  return `limiter-${made}`;
}

export function limiters({ client, receiver, scoped }: Stage): void {
  const { acme, rival } = client;

  const ask = async <T>(who: Client, status: number, method: string, path: string, body?: unknown): Promise<T> => {
    const reply = await who.ask(method, path, body === undefined ? {} : { body });
    assert.equal(reply.status, status, `${method} ${path}: ${reply.text}`);
    return reply.json as T;
  };
  const create = (given: object = {}, who = acme): Promise<Limiter> =>
    ask(who, 201, 'POST', PATH, { name: freshName(), type: 'window', config: { limit: 5, interval: 10 }, ...given });
  const pathsOf = ({ details }: { details: Record<string, unknown> }): string[] =>
    (details['errors'] as { path: string }[]).map(({ path }) => path);

  test('a limiter of every kind is made, read and listed as it was given', async () => {
    for (const [type, config] of CONFIGS) {
      const name = freshName();
      const one = await create({ name, type, config });
      assert.match(one.id, /^rl_[\w-]{1,60}$/);
      for (const time of [one.created_at, one.updated_at]) assert.match(time, TIMESTAMP);
      const { id, created_at, updated_at } = one;
      assert.equal(created_at, updated_at);
      assert.deepEqual(one, { id, name, type, config, timeouts: DEFAULTS, created_at, updated_at });
      assert.deepEqual(await ask(acme, 200, 'GET', `${PATH}/${id}`), one);
      const { rate_limiters, total } = await ask<LimiterList>(acme, 200, 'GET', `${PATH}?limit=1000`);
      assert.ok(total >= rate_limiters.length);
      assert.deepEqual(
        rate_limiters.find((item) => item.id === id),
        { id, name, type, config, created_at },
      );
    }
  });

  test('description, timeouts and cooldown are kept; what is not given has its default', async () => {
    const one = await create({ description: 'zwölf am Tag\n', timeouts: { queue_timeout: 7 }, cooldown: 'limiter' });
    assert.deepEqual([one.description, one.timeouts, one.cooldown], ['zwölf am Tag\n', { ...DEFAULTS, queue_timeout: 7 }, 'limiter']);
    assert.deepEqual(await ask(acme, 200, 'GET', `${PATH}/${one.id}`), one);
  });

  test('a change replaces what it names, and nothing else', async () => {
    const one = await create({ description: 'before', timeouts: { queue_timeout: 7, validity_timeout: 8 } });
    const change = async (body: object): Promise<Limiter> => {
      const answer = await ask<Limiter>(acme, 200, 'PATCH', `${PATH}/${one.id}`, body);
      assert.deepEqual(await ask(acme, 200, 'GET', `${PATH}/${one.id}`), answer);
      assert.ok(answer.updated_at >= one.updated_at);
      assert.equal(answer.created_at, one.created_at);
      return answer;
    };
    const changed = await change({ config: { limit: 9, interval: 90 } });
    assert.deepEqual(changed, { ...one, config: { limit: 9, interval: 90 }, updated_at: changed.updated_at });
    assert.deepEqual((await change({ timeouts: { validity_timeout: 60 } })).timeouts, { ...DEFAULTS, validity_timeout: 60 });
    assert.deepEqual((await change({ timeouts: null })).timeouts, DEFAULTS);
    assert.equal((await change({ description: 'after' })).description, 'after');
    assert.equal((await change({ description: null })).description, undefined);
    assert.equal((await change({ cooldown: 'limiter' })).cooldown, 'limiter');
    assert.equal((await change({ cooldown: 'task' })).cooldown, undefined);
    await change({});
  });

  test('an empty description is one, and is shown as it was given', async () => {
    const one = await create({ description: '' });
    assert.equal(one.description, '');
    assert.equal((await ask<Limiter>(acme, 200, 'GET', `${PATH}/${one.id}`)).description, '');
    for (const description of ['"quoted"\t\\', '', null, 'null']) {
      const { description: shown } = await ask<Limiter>(acme, 200, 'PATCH', `${PATH}/${one.id}`, { description });
      assert.equal(shown, description ?? undefined);
    }
  });

  test('names differ by case, and are as long as 64', async () => {
    const name = freshName();
    const [lower, upper, long] = [
      await create({ name }),
      await create({ name: name.toUpperCase() }),
      await create({ name: '-'.repeat(64) }),
    ];
    assert.equal(new Set([lower.id, upper.id, long.id]).size, 3);
  });

  test('a method that is not there is 405, with those that are', async () => {
    const { id } = await create();
    for (const [method, path, allowed] of [
      ['PUT', PATH, ['GET', 'POST']],
      ['POST', `${PATH}/${id}`, ['GET', 'PATCH', 'DELETE']],
      ['POST', `${PATH}/${id}/usage`, ['GET']],
      ['GET', `${PATH}/${id}/pause`, ['POST']],
      ['DELETE', `${PATH}/${id}/resume`, ['POST']],
      ['PATCH', `${PATH}/${id}/reset`, ['POST']],
    ] as const) {
      const { status, headers } = await acme.ask(method, path, { body: {} });
      assert.equal(status, 405, `${method} ${path}`);
      const allow = String(headers['allow']).split(', ');
      assert.ok(allowed.every((one) => allow.includes(one)) && !allow.includes(method), `${method} ${path}: ${allow}`);
    }
    await acme.refused(404, 'not_found', 'GET', `${PATH}/${id}/history`);
  });

  test('a change of name or type, or a config of another kind, is 400 with its place', async () => {
    const { id } = await create({ type: 'leaky', config: { capacity: 1, drain_rate: 2, interval: 3 } });
    const cases: [object, string[]][] = [
      [{ name: 'other' }, ['/name']],
      [{ type: 'leaky' }, ['/type']],
      [{ name: 'a', type: 'b', x: 1 }, ['/name', '/type', '/x']],
      [{ config: { limit: 1, interval: 1 } }, ['/config/capacity', '/config/drain_rate', '/config/limit']],
      [{ config: { capacity: 1, drain_rate: 2 } }, ['/config/interval']],
      [{ config: { capacity: 0, drain_rate: 2, interval: 3, more: 1 } }, ['/config/capacity', '/config/more']],
      [{ config: null }, ['/config']],
      [{ timeouts: { queue_timeout: 604_801 } }, ['/timeouts/queue_timeout']],
      [{ timeouts: { queue_timeout: 0, validity_timeout: null } }, ['/timeouts/queue_timeout', '/timeouts/validity_timeout']],
      [{ timeouts: [] }, ['/timeouts']],
      [{ cooldown: null }, ['/cooldown']],
      [{ description: 'x'.repeat(1_025) }, ['/description']],
    ];
    for (const [body, paths] of cases) {
      const refused = await acme.refused(400, 'validation_error', 'PATCH', `${PATH}/${id}`, { body });
      assert.deepEqual(pathsOf(refused).sort(), paths, JSON.stringify(body));
    }
    assert.deepEqual((await ask<Limiter>(acme, 200, 'GET', `${PATH}/${id}`)).config, { capacity: 1, drain_rate: 2, interval: 3 });
  });

  test('a body that is wrong is 400 with the place of every fault', async () => {
    const good = { name: 'fine', type: 'window', config: { limit: 5, interval: 10 } };
    const cases: [unknown, string[]][] = [
      [{}, ['/config', '/name', '/type']],
      [[], ['']],
      [{ ...good, name: 'no_underscore' }, ['/name']],
      [{ ...good, name: '' }, ['/name']],
      [{ ...good, name: 'x'.repeat(65) }, ['/name']],
      [{ ...good, name: 'ünïcode' }, ['/name']],
      [{ ...good, type: 'sliding' }, ['/type']],
      [{ ...good, config: {} }, ['/config/interval', '/config/limit']],
      [{ ...good, config: { limit: 5, interval: 10, capacity: 1 } }, ['/config/capacity']],
      [{ ...good, type: 'points' }, ['/config/capacity', '/config/limit', '/config/refill_rate']],
      [{ ...good, type: 'concurrent', config: { limit: 100_001, lock_timeout: 86_401 } }, ['/config/limit', '/config/lock_timeout']],
      [{ ...good, config: { limit: 1_000_001, interval: 2_592_001 } }, ['/config/interval', '/config/limit']],
      [{ ...good, timeouts: null }, ['/timeouts']],
      [{ ...good, timeouts: { validity_timeout: 1.5, x: 1 } }, ['/timeouts/validity_timeout', '/timeouts/x']],
      [{ ...good, cooldown: 'batch', id: 'rl_1' }, ['/cooldown', '/id']],
    ];
    for (const [body, paths] of cases) {
      const refused = await acme.refused(400, 'validation_error', 'POST', PATH, { body });
      assert.deepEqual(pathsOf(refused).sort(), paths, JSON.stringify(body));
    }
    await acme.refused(400, 'invalid_json', 'POST', PATH, { raw: '{' });
    await acme.refused(415, 'unsupported_media_type', 'POST', PATH, { raw: '{}', headers: { 'content-type': 'text/plain' } });
  });

  test('a name is taken once in an account, and by another account too', async () => {
    const name = freshName();
    const { id } = await create({ name });
    const { details } = await acme.refused(409, 'rate_limiter_name_taken', 'POST', PATH, {
      body: { name, type: 'concurrent', config: { limit: 1 } },
    });
    assert.deepEqual(details, { name });
    assert.notEqual((await create({ name }, rival)).id, id);
  });

  test('the same Idempotency-Key makes one limiter', async () => {
    const send = { body: { name: freshName(), type: 'concurrent', config: { limit: 1 } }, headers: { 'idempotency-key': freshName() } };
    const first = await acme.ask('POST', PATH, send);
    const again = await acme.ask('POST', PATH, send);
    assert.deepEqual([first.status, again.status, again.text], [201, 201, first.text]);
    assert.equal(again.headers['idempotent-replayed'], 'true');
    const other = { ...send, body: { ...send.body, name: freshName() } };
    await acme.refused(422, 'idempotency_key_reused', 'POST', PATH, other);
  });

  test('pause, resume and reset answer a repeated key as the first time', async () => {
    const { id } = await create();
    const key = freshName();
    const send = (what: string, body?: object): Promise<Reply> =>
      acme.ask('POST', `${PATH}/${id}/${what}`, { headers: { 'idempotency-key': key }, ...(body === undefined ? {} : { body }) });
    const first = await send('pause', {});
    await ask(acme, 200, 'POST', `${PATH}/${id}/resume`);
    const again = await send('pause', {});
    assert.deepEqual([first.status, again.status, again.text, again.headers['idempotent-replayed']], [200, 200, first.text, 'true']);
    assert.equal((await ask<Limiter>(acme, 200, 'GET', `${PATH}/${id}`)).paused, undefined, 'it was done once');
    for (const reply of [await send('resume'), await send('reset'), await send('pause', { until: inSeconds(60) })]) {
      assert.equal((reply.json as { error: { code: string } }).error.code, 'idempotency_key_reused');
    }
  });

  test('another account’s limiter is not there, and read-only tokens change nothing', async () => {
    const { id, name } = await create();
    const requests: [string, string, object | undefined][] = [
      ['GET', '', undefined],
      ['PATCH', '', { description: 'x' }],
      ['DELETE', '', undefined],
      ['GET', '/usage', undefined],
      ['POST', '/pause', undefined],
      ['POST', '/pause', { until: inSeconds(60) }],
      ['POST', '/resume', undefined],
      ['POST', '/reset', undefined],
    ];
    for (const [method, more, body] of requests) {
      const options = body === undefined ? {} : { body };
      for (const path of [`${PATH}/${NO_LIMITER}${more}`, `${PATH}/rl_x${more}`, `${PATH}/batch_000000000000000000${more}`]) {
        await acme.refused(404, 'rate_limiter_not_found', method, path, options);
      }
      await rival.refused(404, 'rate_limiter_not_found', method, `${PATH}/${id}${more}`, options);
      if (method !== 'GET') await scoped.read.refused(403, 'forbidden', method, `${PATH}/${id}${more}`, options);
    }
    await rival.refused(404, 'rate_limiter_not_found', 'PATCH', `${PATH}/${id}`, { raw: '{' });
    await rival.refused(400, 'rate_limiter_not_found', 'POST', '/v1/tasks', { body: { target: receiver.url, rate_limiter: name } });
    assert.deepEqual((await ask<Limiter>(scoped.read, 200, 'GET', `${PATH}/${id}`)).name, name);
  });

  test('a deleted limiter is gone but for its usage, and cannot be named any more', async () => {
    const { id, name } = await create();
    assert.deepEqual(await ask(acme, 200, 'DELETE', `${PATH}/${id}`), { deleted: true, id });
    for (const [method, path] of [
      ['GET', id],
      ['DELETE', id],
      ['PATCH', id],
      ['POST', `${id}/pause`],
      ['POST', `${id}/reset`],
    ] as const) {
      const options = method === 'PATCH' ? { body: {} } : {};
      await acme.refused(404, 'rate_limiter_not_found', method, `${PATH}/${path}`, options);
    }
    await ask<LimiterUsage>(acme, 200, 'GET', `${PATH}/${id}/usage`);
    const { rate_limiters } = await ask<LimiterList>(acme, 200, 'GET', `${PATH}?limit=1000`);
    assert.ok(rate_limiters.every((one) => one.id !== id));
    await acme.refused(400, 'rate_limiter_not_found', 'POST', '/v1/tasks', { body: { target: receiver.url, rate_limiter: name } });
    const again = await create({ name });
    assert.notEqual(again.id, id);
  });

  test('a pause is shown while it lasts, with its end where it has one', async () => {
    const { id } = await create();
    const act = (what: string, body?: object): Promise<Limiter> => ask(acme, 200, 'POST', `${PATH}/${id}/${what}`, body);
    const shown = ({ paused, paused_until }: Limiter): unknown[] => [paused, paused_until];
    const until = inSeconds(600);
    assert.deepEqual(shown(await act('pause')), [true, undefined]);
    assert.deepEqual(shown(await act('pause', { until })), [true, until]);
    assert.deepEqual(shown(await ask(acme, 200, 'GET', `${PATH}/${id}`)), [true, until]);
    assert.deepEqual(shown(await act('resume')), [undefined, undefined]);
    assert.deepEqual(shown(await act('resume')), [undefined, undefined]);
    assert.deepEqual(shown(await act('pause', {})), [true, undefined]);
    assert.deepEqual(shown(await act('reset')), [true, undefined]);
    for (const [body, path] of [
      [{ until: inSeconds(-1) }, '/until'],
      [{ until: 'tomorrow' }, '/until'],
      [{ until: null }, '/until'],
      [{ for: 5 }, '/for'],
    ] as const) {
      assert.deepEqual(pathsOf(await acme.refused(400, 'validation_error', 'POST', `${PATH}/${id}/pause`, { body })), [path]);
    }
  });

  test('the usage of a limiter has the last hour by the minute and 30 days', async () => {
    const { id } = await create({ type: 'points', config: { capacity: 20, refill_rate: 5, interval: 1 } });
    const usage = await ask<LimiterUsage>(acme, 200, 'GET', `${PATH}/${id}/usage`);
    const { history, days, ...now } = usage;
    assert.deepEqual(now, {
      queued: 0,
      running: 0,
      granted_last_minute: 0,
      throttled_last_minute: 0,
      available: 20,
      next_available_at: null,
    });
    assert.ok(history.length <= 60 && days.length <= 31);
    assert.ok(history.every(({ at }) => TIMESTAMP.test(at)) && days.every(({ date }) => /^\d{4}-\d\d-\d\d$/.test(date)));
    await acme.refused(400, 'validation_error', 'GET', `${PATH}/${id}/usage?x=1`);
  });

  test('usage tells what was granted, what waits and when more is free; a deletion changes no history', async () => {
    const { id, name } = await create({ type: 'bucket', config: { limit: 3, interval: 86_400 } });
    const usageNow = (): Promise<LimiterUsage> => ask(acme, 200, 'GET', `${PATH}/${id}/usage`);
    const path = freshPath();
    const batch = await acme.create({ tasks: tasksFor(receiver.at(path), 5, { rate_limiter: name }) });
    await acme.batchWhen(batch.id, ({ stats }) => stats.completed === 3);
    const usage = await usageNow();
    const { history, days, next_available_at, ...now } = usage;
    assert.deepEqual(now, { queued: 2, running: 0, granted_last_minute: 3, throttled_last_minute: 2, available: 0 });
    assert.ok(next_available_at !== null && Date.parse(next_available_at) % 86_400_000 === 0, String(next_available_at));
    assert.deepEqual([history.length, days.length], [60, 30]);
    const minutes = history.map(({ at }) => Date.parse(at));
    assert.deepEqual(
      minutes,
      minutes.map((_, i) => (minutes[0] ?? 0) + i * 60_000),
    );
    assert.equal(
      history.reduce((sum, { granted }) => sum + granted, 0),
      3,
    );
    assert.ok(history.some(({ queued_max }) => queued_max >= 2));
    const { date, ...today } = days.at(-1) ?? {};
    assert.equal(date, new Date().toISOString().slice(0, 10));
    assert.deepEqual(today, { granted: 3, throttled: 2, expired: 0 });
    assert.deepEqual((await usageNow()).days, days, 'a look changes nothing');
    await ask(acme, 200, 'DELETE', `${PATH}/${id}`);
    await acme.ended(batch.id, 'completed');
    const after = await usageNow();
    assert.deepEqual([after.queued, after.running, after.available, after.next_available_at], [0, 0, null, null]);
    assert.deepEqual(after.days.slice(0, -1), days.slice(0, -1));
    assert.ok((after.days.at(-1)?.granted ?? 0) >= 3 && after.history.some(({ granted }) => granted >= 3));
    await rival.refused(404, 'rate_limiter_not_found', 'GET', `${PATH}/${id}/usage`);
  });

  test('running slots are told, and what is free of them', async () => {
    const { id, name } = await create({ type: 'concurrent', config: { limit: 2 } });
    const path = freshPath();
    const batch = await acme.create({ tasks: tasksFor(receiver.at(path, { hold: true }), 3, { rate_limiter: name }) });
    await receiver.heard(path, 2);
    const { queued, running, available, next_available_at } = await ask<LimiterUsage>(acme, 200, 'GET', `${PATH}/${id}/usage`);
    assert.deepEqual([queued, running, available], [1, 2, 0]);
    assert.ok(next_available_at === null || Date.parse(next_available_at) > Date.now(), 'at the latest when they are lost');
    receiver.release(path);
    await acme.ended(batch.id, 'completed');
  });

  test('limiters are listed newest first, in pages', async () => {
    const names = [freshName(), freshName(), freshName()];
    for (const name of names) await create({ name }, client.lists);
    const page = (query: string): Promise<LimiterList> => ask(client.lists, 200, 'GET', `${PATH}${query}`);
    const { total, rate_limiters } = await page('');
    assert.equal(total, names.length);
    const times = rate_limiters.map(({ created_at }) => created_at);
    assert.deepEqual(times, times.toSorted().reverse());
    const paged: string[] = [];
    for (const offset of [0, 1, 2]) paged.push(...(await page(`?limit=1&offset=${offset}`)).rate_limiters.map(({ id }) => id));
    assert.deepEqual(
      paged,
      rate_limiters.map(({ id }) => id),
    );
    assert.deepEqual(await page('?offset=3'), { total, rate_limiters: [] });
    for (const query of ['limit=0', 'limit=1001', 'offset=-1', 'type=window']) {
      await client.lists.refused(400, 'validation_error', 'GET', `${PATH}?${query}`);
    }
  });
}
