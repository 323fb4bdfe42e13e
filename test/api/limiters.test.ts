// Making, naming, listing and deleting limiters on a real Redis, with what processes that died in between leave behind.
import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { type Command, Redis } from 'ioredis';
import { makeApi } from '../../src/api/api.ts';
import type { Answer, Api, Call } from '../../src/api/call.ts';
import type { ApiContext } from '../../src/api/context.ts';
import { keyedBy } from '../../src/api/idempotency.ts';
import { Placement } from '../../src/api/placement.ts';
import { resolveLimiters } from '../../src/api/resolve.ts';
import { ApiError } from '../../src/base/errors.ts';
import { newCore, parseId } from '../../src/base/id.ts';
import type { Limiter, LimiterList } from '../../src/schema/types.gen.ts';
import { isUnavailable } from '../../src/store/errors.ts';
import { claimKey } from '../../src/store/idempotency.ts';
import { keys } from '../../src/store/keys.ts';
import * as names from '../../src/store/limiter-names.ts';
import * as limiters from '../../src/store/limiters.ts';
import { preparePartitions } from '../../src/store/partition.ts';
import { textOf } from '../../src/store/script.ts';
import { namesConfirm } from '../../src/store/scripts.gen.ts';
import { startRedis } from '../helpers/redis.ts';

const PARTITIONS = 4;
const ACCOUNT = 'acme';
const { redis, path } = await startRedis();
const api = makeApi(contextOf(redis));

/** A client that lets the test do something between the reservation of a name and the creation of its limiter. */
class HookedRedis extends Redis {
  /** Core of the limiter that was made through it. */
  created: string | null = null;
  readonly #between: () => Promise<void>;

  constructor(path: string, between: () => Promise<void>) {
    super({ path });
    this.#between = between;
  }

  override sendCommand(command: Command, stream?: Parameters<Redis['sendCommand']>[1]): unknown {
    const args = command.args.map(String);
    const creates = /^eval(sha)?$/.test(command.name) && args.includes('slow') && args.some((arg) => arg.endsWith(':m'));
    if (!creates || this.created !== null) return super.sendCommand(command, stream);
    this.created = args.find((arg) => /^[0-9A-Za-z]{18}$/.test(arg)) ?? null;
    return this.#between().then(() => super.sendCommand(command, stream));
  }
}

/** A client whose confirmations of names are refused, as where their slot moves. */
class RefusingRedis extends Redis {
  refused = 0;

  override sendCommand(command: Command, stream?: Parameters<Redis['sendCommand']>[1]): unknown {
    const [script] = command.args;
    if (script !== namesConfirm.sha && script !== textOf(namesConfirm)) return super.sendCommand(command, stream);
    this.refused += 1;
    command.reject(new Error('TRYAGAIN Multiple keys request during rehashing of slot'));
    return command.promise;
  }
}

beforeEach(async () => {
  await redis.flushall();
  await preparePartitions(redis, PARTITIONS);
});

/** What limiters need of it. */
function contextOf(client: Redis): ApiContext {
  const partitions = { now: PARTITIONS, first: PARTITIONS };
  return {
    client,
    partitions,
    admit: () => {},
    placement: new Placement(partitions),
    durability: { local: true, confirm: async () => true, confirmHome: async () => true, close: () => {} },
  } as unknown as ApiContext;
}

function callOf(given: Partial<Call>): Call {
  const empty = {
    params: {},
    query: {},
    body: null,
    raw_body: null,
    lines: null,
    head_faults: [],
    idempotency_key: null,
    trace: null,
    ticket: null,
    token: null,
    abandoned: () => false,
  };
  return { account: 'acme', account_id: ACCOUNT, request_id: 'req_1', now_ms: Date.now(), ...empty, ...given };
}

const WINDOW = { type: 'window', config: { limit: 5, interval: 10 } };

async function run<T>(name: Exclude<keyof Api, 'precheck'>, given: Partial<Call>): Promise<T> {
  const raw_body = given.body === undefined ? null : Buffer.from(JSON.stringify(given.body));
  const { body }: Answer = await api[name](callOf({ raw_body, ...given }));
  return (Buffer.isBuffer(body) ? JSON.parse(body.toString()) : body) as T;
}

const create = (name: string, given: Partial<Call> = {}): Promise<Limiter> => run('createLimiter', { body: { name, ...WINDOW }, ...given });
const list = (query = { limit: 100, offset: 0 }): Promise<LimiterList> => run('listLimiters', { query });
const listed = async (): Promise<string[]> => (await list()).rate_limiters.map(({ name }) => name);
const remove = (id: string): Promise<unknown> => run('deleteLimiter', { params: { rate_limiter_id: id } });
const coreOf = ({ id }: { id: string }): string => parseId('rl_', id) ?? '';

function refusedAs(row: string) {
  return (error: unknown): boolean => error instanceof ApiError && error.row === row;
}

/** As long ago as it takes for a reservation to be given up. */
async function ageReservations(): Promise<void> {
  const key = keys.limiterReserved(ACCOUNT);
  for (const member of await redis.zrange(key, '0', '-1')) await redis.zadd(key, Date.now() - 11_000, member);
}

/** A limiter as a process leaves it that dies before it confirms the name. */
async function unconfirmed(name: string): Promise<string> {
  const core = newCore(1, Date.now());
  await names.reserveName(redis, ACCOUNT, name, core);
  await limiters.createLimiter(redis, {
    core,
    account_id: ACCOUNT,
    name,
    type: 'window',
    config: WINDOW.config,
    description: null,
    timeouts: { queue_timeout: 300, validity_timeout: 3600 },
    cooldown: 'task',
  });
  return core;
}

describe('the name of a limiter', () => {
  test('goes to one of many who want it at once', async () => {
    const outcomes = await Promise.allSettled(Array.from({ length: 20 }, () => create('wanted')));
    const made = outcomes.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
    const refused = outcomes.flatMap((one) => (one.status === 'rejected' ? [one.reason as unknown] : []));
    assert.equal(made.length, 1);
    assert.ok(refused.every(refusedAs('rate_limiter_name_taken')));
    assert.deepEqual(await listed(), ['wanted']);
    const found = await resolveLimiters(redis, ACCOUNT, ['wanted', 'other']);
    assert.deepEqual([found.get('wanted')?.core, found.get('other')], [coreOf(made[0] as Limiter), null]);
  });

  test('is free again after a deletion, and never leads to the limiter before', async () => {
    const first = await create('again');
    await remove(first.id);
    assert.equal((await resolveLimiters(redis, ACCOUNT, ['again'])).get('again'), null);
    const second = await create('again');
    assert.notEqual(second.id, first.id);
    assert.equal((await resolveLimiters(redis, ACCOUNT, ['again'])).get('again')?.core, coreOf(second));
    await assert.rejects(remove(first.id), refusedAs('limiter_not_found'));
    assert.deepEqual(await listed(), ['again']);
  });

  test('that another account has is free', async () => {
    await create('same');
    await create('same', { account_id: 'rival' });
    assert.deepEqual((await resolveLimiters(redis, 'stranger', ['same'])).get('same'), null);
  });
});

describe('what a process that died leaves behind', () => {
  test('a name without a limiter is taken for 10 s, then given up', async () => {
    await names.reserveName(redis, ACCOUNT, 'lost', newCore(2, Date.now()));
    await assert.rejects(create('lost'), refusedAs('rate_limiter_name_taken'));
    assert.deepEqual(await list(), { total: 0, rate_limiters: [] });
    await ageReservations();
    await create('lost');
    assert.deepEqual(await listed(), ['lost']);
  });

  test('a limiter that was made keeps its name, and is listed once somebody looks', async () => {
    const core = await unconfirmed('made');
    assert.equal((await resolveLimiters(redis, ACCOUNT, ['made'])).get('made')?.core, core);
    await assert.rejects(create('made'), refusedAs('rate_limiter_name_taken'));
    await ageReservations();
    assert.deepEqual(await listed(), ['made']);
    assert.equal(await redis.zcard(keys.limiterReserved(ACCOUNT)), 0);
  });

  test('one whose name is asked for is confirmed by that', async () => {
    await unconfirmed('made');
    await ageReservations();
    await assert.rejects(create('made'), refusedAs('rate_limiter_name_taken'));
    assert.equal(await redis.zcard(keys.limiterReserved(ACCOUNT)), 0);
    assert.deepEqual(await listed(), ['made']);
  });

  test('a limiter that was deleted but for its name is not listed, and its name is free', async () => {
    for (const heal of [() => create('half'), () => list()]) {
      const { id } = await create('half');
      await limiters.deleteLimiter(redis, ACCOUNT, parseId('rl_', id) ?? '');
      await heal();
      assert.notEqual((await resolveLimiters(redis, ACCOUNT, ['half'])).get('half')?.core, parseId('rl_', id));
      for (const one of (await list()).rate_limiters) await remove(one.id);
      assert.deepEqual(await list(), { total: 0, rate_limiters: [] });
    }
  });

  test('a maker that was so slow that its name was given away takes its limiter back', async () => {
    let winner: Limiter | null = null;
    const slow = new HookedRedis(path, async () => {
      await ageReservations();
      winner = await create('slow');
    });
    const { createLimiter } = makeApi(contextOf(slow));
    const call = callOf({ body: { name: 'slow', ...WINDOW } });
    await assert.rejects(createLimiter(call), refusedAs('rate_limiter_name_taken'));
    slow.disconnect();
    assert.deepEqual(
      (await list()).rate_limiters.map(({ id }) => id),
      [winner === null ? '' : (winner as Limiter).id],
    );
    const left = slow.created === null ? null : await limiters.readLimiter(redis, slow.created);
    assert.ok(left !== null && left.deleted_ms !== null, 'what was made too late is deleted');
  });

  test('that cannot be confirmed now is that of a limiter which is there: it is not made again under another id', async (t) => {
    const refusing = new RefusingRedis({ path });
    t.after(() => refusing.disconnect());
    const { createLimiter } = makeApi(contextOf(refusing));
    await assert.rejects(createLimiter(callOf({ body: { name: 'there', ...WINDOW } })), isUnavailable);
    assert.equal(refusing.refused, 1);
    await ageReservations();
    await assert.rejects(create('there'), refusedAs('rate_limiter_name_taken'));
    assert.deepEqual(await listed(), ['there']);
  });
});

describe('a reservation', () => {
  test('is not given up where it was confirmed since somebody looked', async () => {
    const { id } = await create('late');
    const core = parseId('rl_', id) ?? '';
    await names.giveUpName(redis, ACCOUNT, 'late', core);
    assert.equal((await resolveLimiters(redis, ACCOUNT, ['late'])).get('late')?.core, core);
    assert.deepEqual(await listed(), ['late']);
  });
});

describe('a create with an Idempotency-Key', () => {
  const keyed = { idempotency_key: 'key-1' };

  test('makes one limiter, however often it is sent, and answers the same', async () => {
    const bodies = await Promise.all(Array.from({ length: 5 }, () => create('keyed', keyed)));
    assert.equal(new Set(bodies.map((body) => JSON.stringify(body))).size, 1);
    assert.deepEqual(await listed(), ['keyed']);
  });

  test('finds the limiter of a first try that died before it answered', async () => {
    const first = await create('keyed', keyed);
    const [record] = await redis.keys('*idem:*');
    await redis.hdel(record ?? '', 'r');
    await redis.zrem(keys.limiterList(ACCOUNT), coreOf(first));
    assert.deepEqual(await create('keyed', keyed), first);
    assert.deepEqual(await listed(), ['keyed']);
  });

  test('does not make it again where it was deleted since', async () => {
    const first = await create('keyed', keyed);
    const [record] = await redis.keys('*idem:*');
    await redis.hdel(record ?? '', 'r');
    await remove(first.id);
    assert.equal((await create('keyed', keyed)).id, first.id);
    assert.deepEqual(await listed(), []);
  });

  test('is refused for another body, and where another limiter has the name', async () => {
    await create('first');
    await assert.rejects(create('first', keyed), refusedAs('rate_limiter_name_taken'));
    // A refusal leaves the key free.
    await create('second', keyed);
    await assert.rejects(create('third', keyed), refusedAs('idempotency_key_reused'));
  });
});

describe('a change with an Idempotency-Key', () => {
  const pause = (id: string): Partial<Call> => ({ params: { rate_limiter_id: id }, body: {}, idempotency_key: 'key-2' });

  test('is made by one of those who ask at once; the others have its answer, or are told to wait', async () => {
    const { id } = await create('paused');
    const asked = await Promise.allSettled(Array.from({ length: 8 }, () => run<Limiter>('pauseLimiter', pause(id))));
    const bodies = asked.flatMap((one) => (one.status === 'fulfilled' ? [JSON.stringify(one.value)] : []));
    for (const one of asked) assert.ok(one.status === 'fulfilled' || refusedAs('idempotency_conflict')(one.reason));
    assert.ok(bodies.length > 0);
    assert.deepEqual([...new Set(bodies)], [JSON.stringify(await run('pauseLimiter', pause(id)))]);
  });

  test('is a conflict while the first is at work, and made again where that died', async () => {
    const { id } = await create('paused');
    const call = callOf({ ...pause(id), raw_body: Buffer.from('{}') });
    const keyed = keyedBy(contextOf(redis), call, 'pauseLimiter');
    assert.ok(keyed);
    await claimKey(redis, keyed, keyed.print, 'theirs');
    for (let tries = 0; tries < 2; tries++) await assert.rejects(run('pauseLimiter', pause(id)), refusedAs('idempotency_conflict'));
    await redis.hset(keys.idempotency(keyed.partition, keyed.idem_key), 'b', Date.now() - 3_001);
    assert.equal((await run<Limiter>('pauseLimiter', pause(id))).paused, true);
  });
});

describe('the list of limiters', () => {
  test('is newest first in pages that neither repeat nor skip, with all counted', async () => {
    const made: Limiter[] = [];
    for (let n = 0; n < 25; n++) made.push(await create(`n${n}`));
    const paged: string[] = [];
    for (let offset = 0; offset < 25; offset += 7) {
      const page = await list({ limit: 7, offset });
      assert.equal(page.total, 25);
      paged.push(...page.rate_limiters.map(({ id }) => id));
    }
    const order = made.toSorted((a, b) => (a.created_at === b.created_at ? (a.id < b.id ? 1 : -1) : a.created_at < b.created_at ? 1 : -1));
    assert.deepEqual(
      paged,
      order.map(({ id }) => id),
    );
    const [item] = (await list({ limit: 1, offset: 0 })).rate_limiters;
    assert.deepEqual(Object.keys(item ?? {}), ['id', 'name', 'type', 'config', 'created_at']);
  });
});
