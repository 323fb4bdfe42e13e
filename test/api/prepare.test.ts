// What becomes of a body of many tasks before Redis is asked: the same in this thread and in the one for large bodies.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { type Prepared, type PrepareRequest, prepare, type Ready } from '../../src/api/prepare.ts';
import { type LimitersByName, NO_LIMITERS, namesIn } from '../../src/api/resolve.ts';
import { newCore } from '../../src/base/id.ts';
import { INTAKE_INLINE_BYTES_MAX, INTAKE_SHARE_BYTES_MAX } from '../../src/base/limits.ts';
import { createLog } from '../../src/base/log.ts';
import { makeIntake } from '../../src/intake.ts';
import { egressPolicy } from '../../src/outbound/addresses.ts';
import { socketSpec } from '../../src/store/address.ts';
import { NEW } from '../../src/store/batches.ts';
import { keys } from '../../src/store/keys.ts';
import { segmentFields } from '../../src/store/records.ts';
import { startRedis } from '../helpers/redis.ts';

const POLICY = egressPolicy({ allow_private: false, allow_cidrs: [], deny_cidrs: ['203.0.113.0/24'] });
const NOW_MS = Date.parse('2026-01-31T09:00:00Z');
const log = createLog({ level: 'silent' });
const { redis, path } = await startRedis();
const intake = makeIntake({ policy: POLICY, connection: socketSpec(path), log_level: 'silent' }, log);
before(() => Promise.all(intake.workers.map((worker) => worker.start())));
after(() => Promise.all(intake.workers.map((worker) => worker.stop(0))));

type Given = Partial<Omit<PrepareRequest, 'body'>>;
const GIVEN = {
  what: 'create',
  now_ms: NOW_MS,
  trace: null,
  print_head: null,
  known_keys: [],
  limiters: NO_LIMITERS,
  stage: null,
} as const;

function requestOf(body: unknown, given: Given = {}): PrepareRequest {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return { ...GIVEN, body: Buffer.from(text), ...given };
}

function readyOf({ outcome }: Prepared): Ready {
  assert.ok(outcome.kind === 'ready', JSON.stringify(outcome));
  return outcome;
}

const LIMITERS: LimitersByName = new Map([
  ['slow', { core: 'SLOW', letter: 'p', cost_max: 10 }],
  ['fast', { core: 'FAST', letter: 'w', cost_max: null }],
]);

/** What Redis would get, in a form that does not depend on where it was made. */
function written(prepared: Prepared): unknown {
  const { tasks, body, left_out, ...rest } = readyOf(prepared);
  const segments = tasks.segments.map((segment) => segmentFields(segment).map((part) => Buffer.from(part).toString('latin1')));
  return { ...rest, segments, left_out: Buffer.from(left_out).toString(), runs: tasks.runs, count: tasks.count, print: prepared.print };
}

const url = (n: number): string => `https://h${n}.example/hook`;

describe('a body of many tasks', () => {
  const tasks = Array.from({ length: 3_000 }, (_, n) => ({ target: url(1), payload: { n, text: 'x'.repeat(800) } }));

  test('is written by the thread for large bodies, where the request says so, and what comes back is without it', async () => {
    const stage = { core: newCore(3, NOW_MS), operation: NEW };
    const here = readyOf(prepare(requestOf({ tasks }), POLICY)).tasks;
    const there = readyOf(await intake.prepare(requestOf({ tasks }, { stage }))).tasks;
    assert.deepEqual([here.staged, there.staged, there.count], [false, true, 3_000]);
    assert.ok(there.segments.length > 1);
    for (const [k, { base, bytes, tasks: count, pages }] of there.segments.entries()) {
      const segment = here.segments[k];
      assert.ok(segment !== undefined);
      assert.deepEqual([base, bytes, count, pages.byteLength], [segment.base, segment.bytes, segment.tasks, 0]);
      const fields = segmentFields(segment).map(String);
      const stored = await redis.hgetall(keys.staged(3, stage.core, NEW, base));
      assert.deepEqual(stored, Object.fromEntries(fields.flatMap((name, i) => (i % 2 === 0 ? [[name, fields[i + 1]]] : []))));
      assert.ok((await redis.pttl(keys.staged(3, stage.core, NEW, base))) > 0, 'it goes away where no commit follows');
    }
  });

  test('comes back whole where Redis does not take it', async () => {
    const lost = makeIntake({ policy: POLICY, connection: socketSpec(`${path}-gone`), log_level: 'silent' }, log);
    for (const worker of lost.workers) await worker.start();
    const stage = { core: newCore(3, NOW_MS), operation: NEW };
    const prepared = await lost.prepare(requestOf({ tasks }, { stage }));
    assert.equal(readyOf(prepared).tasks.staged, false);
    assert.deepEqual(written(prepared), written(prepare(requestOf({ tasks }), POLICY)));
    for (const worker of lost.workers) await worker.stop(0);
  });

  test('comes out of the thread for large bodies as it does here', async () => {
    const tasks = Array.from({ length: 2_600 }, (_, n) => ({
      target: { url: url(n % 90), method: 'POST' },
      payload: { n, text: 'ü'.repeat(100) },
      ...(n % 7 === 0 ? { idempotency_key: `k${n % 70}` } : {}),
      ...(n % 500 === 3 ? { timeout: -1 } : {}),
    }));
    const body = { tasks, options: { atomic: false }, labels: { env: 'test' }, description: 'many' };
    const given = { print_head: 'createBatch\n{}\n' };
    assert.ok(requestOf(body).body.byteLength > INTAKE_SHARE_BYTES_MAX);
    const here = prepare(requestOf(body, given), POLICY);
    const moved = requestOf(body, given);
    const there = await intake.prepare(moved);
    assert.equal(moved.body.byteLength, 0, 'the memory of the body went along');
    assert.deepEqual(written(there), written(here));
    assert.equal(here.print, createHash('sha256').update('createBatch\n{}\n').update(requestOf(body).body).digest('base64url'));
  });

  test('is prepared here where it comes alone, and in the thread right behind another', async (t) => {
    const tasks = Array.from({ length: 3_000 }, (_, n) => ({ target: url(1), payload: { n, text: 'x'.repeat(100) } }));
    const [alone, next] = [requestOf({ tasks }), requestOf({ tasks })];
    assert.ok(alone.body.byteLength > INTAKE_INLINE_BYTES_MAX && alone.body.byteLength <= INTAKE_SHARE_BYTES_MAX);
    const fresh = makeIntake({ policy: POLICY, connection: socketSpec(path), log_level: 'silent' }, log);
    t.after(() => Promise.all(fresh.workers.map((worker) => worker.stop(0))));
    for (const worker of fresh.workers) await worker.start();
    const here = fresh.prepare(alone);
    const there = fresh.prepare(next);
    assert.ok(!(here instanceof Promise) && there instanceof Promise);
    assert.deepEqual(written(await there), written(here));
    assert.equal(next.body.byteLength, 0, 'the memory of the second went along');
  });

  test('is refused by the thread for large bodies in the same words as here', async () => {
    const bad = [
      `{"tasks":[${' '.repeat(INTAKE_SHARE_BYTES_MAX)}`,
      { tasks: Array.from({ length: 12_000 }, () => ({ target: 'ftp://x.example/', payload: 'some text' })) },
      { tasks: Array.from({ length: 12_000 }, () => ({ target: 'http://203.0.113.9/', payload: 'some text' })) },
    ];
    const stages: unknown[] = [];
    for (const body of bad) {
      const here = prepare(requestOf(body), POLICY);
      const moved = requestOf(body);
      assert.deepEqual(await intake.prepare(moved), here);
      assert.equal(moved.body.byteLength, 0, 'the memory of the body went along');
      stages.push(here.outcome.kind === 'refused' && [here.outcome.stage, here.outcome.row]);
    }
    assert.deepEqual(stages, [
      ['json', 'invalid_json'],
      ['check', 'validation_error'],
      ['targets', 'target_not_allowed'],
    ]);
  });

  test('added to a batch brings its bytes back where some of its keys may be known, and leaves those out', async () => {
    const tasks = Array.from({ length: 5_000 }, (_, n) => ({ target: url(1), payload: 'x'.repeat(50), idempotency_key: `key-${n}` }));
    const first = readyOf(await intake.prepare(requestOf({ tasks }, { what: 'add' })));
    assert.equal(first.tasks.count, 5_000);
    const { body } = first;
    assert.ok(body !== null && body.byteLength > INTAKE_SHARE_BYTES_MAX);
    const known_keys = first.task_keys.slice(0, 4_990);
    const again = readyOf(await intake.prepare({ ...requestOf('', { what: 'add', known_keys }), body }));
    assert.deepEqual([again.tasks.count, again.tasks.segments.length, again.tasks.records.length], [10, 0, 10]);
    assert.equal(Buffer.from(again.left_out).toString(), ',"duplicates":4990');
  });

  test('asks for the limiters that nobody looked up, and is prepared with them', async () => {
    const limited = (n: number) => ({
      target: url(1),
      payload: { n },
      ...(n % 3 === 0 ? {} : { rate_limiter: n % 3 === 1 ? 'slow' : 'fast', points_cost: 5 }),
    });
    const tasks = Array.from({ length: 9_000 }, (_, n) => limited(n));
    const first = await intake.prepare(requestOf({ tasks }));
    assert.ok(first.outcome.kind === 'names');
    assert.deepEqual(first.outcome.names, ['slow', 'fast']);
    assert.ok(first.outcome.body.byteLength > INTAKE_SHARE_BYTES_MAX, 'the body came back');
    const again = readyOf(await intake.prepare({ ...requestOf('', { limiters: LIMITERS }), body: first.outcome.body }));
    assert.deepEqual(again.tasks.lanes, [
      { name: 'slow', lane: 'SLOW', kind: 'p' },
      { name: 'fast', lane: 'FAST', kind: 'w' },
    ]);
    const few = readyOf(prepare(requestOf({ tasks: tasks.slice(0, 4) }, { limiters: LIMITERS }), POLICY));
    assert.deepEqual(
      few.tasks.runs.map(({ from, to, limit }) => [from, to, limit]),
      [
        [0, 0, ''],
        [1, 1, 'SLOW,p,5,0'],
        [2, 2, 'FAST,w,1,0'],
        [3, 3, ''],
      ],
    );
  });

  test('with limiters that do not exist is refused with the place of each, or goes on without those tasks', () => {
    const names = ['fast', 'nobody', 'slow', 'constructor', undefined];
    const tasks = names.map((rate_limiter) => ({ target: url(1), rate_limiter }));
    const limiters = new Map([...LIMITERS, ['nobody', null], ['constructor', null]] as [string, null][]);
    const { outcome } = prepare(requestOf({ tasks }, { limiters }), POLICY);
    const faults = [1, 3].map((n) => ({ path: `/tasks/${n}/rate_limiter`, message: 'no rate limiter has this name' }));
    assert.deepEqual(outcome.kind === 'refused' && [outcome.row, outcome.details], [
      'rate_limiter_not_found',
      { rate_limiter: 'nobody', errors: faults },
    ]);
    const partial = readyOf(prepare(requestOf({ tasks, options: { atomic: false } }, { limiters }), POLICY));
    assert.equal(partial.tasks.count, 3);
    assert.equal(
      Buffer.from(partial.left_out).toString(),
      `,"errors":${JSON.stringify(faults.map(({ path, message }, i) => ({ index: [1, 3][i], message, path })))}`,
    );
  });

  test('with a task that costs more than its limiter ever has is refused', () => {
    const tasks = [1, 10, 11, 1_000_000].map((points_cost) => ({ target: url(1), rate_limiter: 'slow', points_cost }));
    const { outcome } = prepare(requestOf({ tasks }, { limiters: LIMITERS }), POLICY);
    const message = 'must be at most 10, the capacity of the rate limiter';
    assert.deepEqual(outcome.kind === 'refused' && [outcome.row, outcome.details], [
      'validation_error',
      { errors: [2, 3].map((n) => ({ path: `/tasks/${n}/points_cost`, message })) },
    ]);
    const others = tasks.map((task) => ({ ...task, rate_limiter: 'fast' }));
    assert.equal(readyOf(prepare(requestOf({ tasks: others }, { limiters: LIMITERS }), POLICY)).tasks.runs.length, 1);
  });

  test('is refused as unavailable where too many wait', async () => {
    const body = `{"tasks":[${' '.repeat(INTAKE_INLINE_BYTES_MAX * 8)}`;
    const outcomes = await Promise.allSettled(Array.from({ length: 60 }, async () => intake.prepare(requestOf(body))));
    const refusals = outcomes.flatMap((one) => (one.status === 'rejected' ? [(one.reason as { row?: string }).row] : []));
    assert.ok(refusals.length > 0 && refusals.length < 60);
    assert.deepEqual([...new Set(refusals)], ['unavailable']);
    readyOf(await intake.prepare(requestOf({ tasks: [{ target: url(1) }], description: ' ' })));
  });
});

describe('the names of limiters in a body', () => {
  const found = (text: string): string[] => [...namesIn(Buffer.from(text))];

  test('are found wherever they stand, each once', () => {
    assert.deepEqual(found('{"tasks":[{"rate_limiter":"a"},{"rate_limiter" :\n\t"b-2"},{"rate_limiter":"a"}]}'), ['a', 'b-2']);
    assert.deepEqual(found('{"payload":{"rate_limiter":"c"}}'), ['c']);
  });

  test('are not made up of what is none', () => {
    for (const text of [
      '',
      '"rate_limiter"',
      '"rate_limiter":',
      '"rate_limiter":"',
      '"rate_limiter":""',
      '"rate_limiter":7',
      '"rate_limiter","x"',
    ]) {
      assert.deepEqual(found(text), [], text);
    }
    assert.deepEqual(found(`"rate_limiter":"${'x'.repeat(65)}"`), []);
    assert.deepEqual(found('"rate_limiter" : null, "rate_limiter":"y"'), ['y']);
  });

  test('are not all looked for in a body of very many; the preparation asks for the rest', () => {
    const tasks = Array.from({ length: 1_100 }, (_, n) => ({ target: url(1), rate_limiter: `n${n}` }));
    const request = requestOf({ tasks });
    const names = namesIn(request.body);
    assert.equal(names.size, 1_000);
    const known = [...names].map((name): [string, null] => [name, null]);
    const { outcome } = prepare({ ...request, limiters: new Map(known) }, POLICY);
    assert.deepEqual(
      outcome.kind === 'names' && outcome.names,
      Array.from({ length: 100 }, (_, n) => `n${n + 1_000}`),
    );
  });

  test('are looked for at its beginning only', () => {
    const space = ' '.repeat(262_144);
    assert.deepEqual(found(`{"rate_limiter":"a",${space}"rate_limiter":"b"}`), ['a']);
  });

  test('that are spelled with escapes are asked for by the preparation', () => {
    const request = requestOf('{"tasks":[{"target":"https://h.example/","rate\\u005flimiter":"sl\\u006fw"}]}');
    assert.equal(namesIn(request.body).size, 0);
    const { outcome } = prepare(request, POLICY);
    assert.deepEqual(outcome.kind === 'names' && outcome.names, ['slow']);
  });
});
