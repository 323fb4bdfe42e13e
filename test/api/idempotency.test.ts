// What is done once for an Idempotency-Key, on a real Redis.
import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import type { Answer, Call } from '../../src/api/call.ts';
import type { ApiContext } from '../../src/api/context.ts';
import { type Begun, keyedBy, once } from '../../src/api/idempotency.ts';
import { ApiError } from '../../src/base/errors.ts';
import { keys } from '../../src/store/keys.ts';
import { preparePartitions } from '../../src/store/partition.ts';
import { idemBegin } from '../../src/store/scripts.gen.ts';
import { startRedis, until } from '../helpers/redis.ts';

const { redis } = await startRedis();
const context = { client: redis, partitions: { now: 4, first: 4 } } as unknown as ApiContext;
const CALL = { account_id: 'acme', params: { task_id: 'task_1' }, raw_body: null, idempotency_key: 'key-1' } as unknown as Call;
const DONE: Answer = { body: { done: true } };

beforeEach(async () => {
  await redis.flushall();
  await preparePartitions(redis, 4);
});

const work = (run: (begun: Begun) => Promise<Answer>): Promise<Answer> => once(context, CALL, 'retryTask', run);

function refusedAs(row: string) {
  return (error: unknown): boolean => error instanceof ApiError && error.row === row;
}

function claimKey(): string {
  const keyed = keyedBy(context, CALL, 'retryTask');
  assert.ok(keyed);
  return keys.idempotency(keyed.partition, keyed.idem_key);
}

test('who comes while it is being done is told so, and afterwards has its answer', async () => {
  let answer = (_: Answer): void => assert.fail('nothing was begun');
  const first = work(() => {
    return new Promise<Answer>((resolve) => {
      answer = resolve;
    });
  });
  await until(async () => (await redis.exists(claimKey())) === 1, 5_000, 'the claim');
  await assert.rejects(
    work(() => assert.fail('twice')),
    refusedAs('idempotency_conflict'),
  );
  answer(DONE);
  await first;
  const again = await work(() => assert.fail('twice'));
  assert.deepEqual([again.body?.toString(), again.headers], ['{"done":true}', { 'Idempotent-Replayed': 'true' }]);
});

test('what a process that died, or was answered 503, may have done is done again under the same id', async () => {
  const notes: string[] = [];
  const failing = work(async ({ known, note }) => {
    notes.push(`${known} ${note}`);
    throw new ApiError('unavailable', {}, { retry_after_s: 1 });
  });
  await assert.rejects(failing, refusedAs('unavailable'));
  await until(async () => (await redis.hget(claimKey(), 'b')) === '0', 5_000, 'the claim to be given back');
  await work(async ({ known, note }) => {
    notes.push(`${known} ${note}`);
    return DONE;
  });
  const [, id] = /^false (\w+)$/.exec(notes[0] ?? '') ?? assert.fail(notes[0]);
  assert.equal(notes[1], `true ${id}`);
});

test('a claim that was sent twice, as after a cut, is the request’s own', async () => {
  const twice = {
    ...context,
    client: new Proxy(redis, {
      get: (target, name) => {
        const value = Reflect.get(target, name) as unknown;
        if (name !== 'evalsha' && name !== 'eval') return typeof value === 'function' ? value.bind(target) : value;
        return async (...args: unknown[]) => {
          const call = value as (...args: unknown[]) => Promise<unknown>;
          if (args.includes(idemBegin.sha)) await call.apply(target, args);
          return call.apply(target, args);
        };
      },
    }),
  } as unknown as ApiContext;
  const seen: boolean[] = [];
  await once(twice, CALL, 'retryTask', async ({ known }) => {
    seen.push(known);
    return DONE;
  });
  assert.deepEqual(seen, [false]);
});

test('a refusal frees the key for another request, and one that an older version claimed has an id, too', async () => {
  const refused = work(() => Promise.reject(new ApiError('task_state_invalid')));
  await assert.rejects(refused, refusedAs('task_state_invalid'));
  assert.equal(await redis.exists(claimKey()), 0);
  const keyed = keyedBy(context, CALL, 'retryTask');
  await redis.hset(claimKey(), { f: keyed?.print ?? '', x: '' });
  await work(async ({ known, note }) => {
    assert.equal(known, true);
    assert.match(note, /^\w+$/);
    return DONE;
  });
});
