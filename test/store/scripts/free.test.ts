// A holder that is free is handed the next task: lua/lib/free.lua.
import assert from 'node:assert/strict';
import { after, beforeEach, describe, test } from 'node:test';
import { type Pushed, readPushed } from '../../../src/store/claimed.ts';
import { readRecord } from '../../../src/store/idempotency.ts';
import { keys } from '../../../src/store/keys.ts';
import { endOffer } from '../../../src/store/offers.ts';
import { turn } from '../../../src/store/partition.ts';
import { until } from '../../helpers/redis.ts';
import { ACCOUNT, places, SETTINGS, startRig, T0 } from '../../helpers/rig.ts';

const rig = await startRig();
const listener = rig.redis.duplicate();
const handed: string[] = [];
listener.on('smessageBuffer', (_name: Buffer, message: Buffer) => handed.push(message.toString('latin1')));
await listener.ssubscribe(keys.handed(0));
after(() => {
  rig.redis.disconnect();
  listener.disconnect();
});
beforeEach(async () => {
  await rig.reset();
  handed.length = 0;
});

/** Settles what `holder` has in flight, and says that its next claim would be this one. */
async function offer(holder: string, call_no: number): Promise<void> {
  await rig.single();
  const tasks = await rig.claim(holder, 10, { call_no: call_no - 1 });
  const settlements = tasks.map(({ flight, index }) => ({ flight, index, verdict: 'c' as const, delay_ms: 0, result: '[1,0,200,5]' }));
  await turn(rig.redis, 0, { ...SETTINGS, holder }, { settlements, tick: false, claim: null, offer: { does: 'make', call_no } });
}

/** Whether an offer of `holder` stands after that. */
async function stands(holder: string, does: 'check' | 'end'): Promise<boolean> {
  const { offered } = await turn(
    rig.redis,
    0,
    { ...SETTINGS, holder },
    { settlements: [], tick: false, claim: null, offer: { does, call_no: 9 } },
  );
  if (offered === null || offered instanceof Error) throw offered ?? new Error('no answer');
  return offered.stands;
}

/** The next task that comes with a bell. */
async function pushed(): Promise<Pushed> {
  await until(() => handed.length > 0, 5_000, 'a task to be handed over');
  return readPushed(handed[0] ?? '');
}

describe('a holder that is free', () => {
  test('has the next task in flight from the start, and hears all of it', async () => {
    await offer('h1', 8);
    const payload = JSON.stringify('ü\u0000€'.repeat(40));
    const { core, first } = await rig.single([{ payload, timeout_s: 7 }]);
    const { holder, call_no, now_ms, task } = await pushed();
    assert.deepEqual([holder, call_no, now_ms, task.due_ms], ['h1', 8, T0, T0]);
    assert.deepEqual([task.flight.core, task.index, task.account_id, task.attempt, task.recoveries], [core, first, ACCOUNT, 1, 0]);
    assert.equal(task.payload?.toString(), payload);
    assert.deepEqual(await rig.active('h1'), [task.flight.name]);
    assert.equal(await rig.redis.zscore(keys.active(0, 'h1'), task.flight.name), String(T0 + 7_000 + SETTINGS.grace_ms));
    assert.deepEqual(await rig.claim('h2', 10), []);
    await rig.settle('h1', [task], 'c');
    assert.equal((await rig.batch(core)).states, 'cc');
  });

  test('has one that came under an idempotency key, which is answered as it was first', async () => {
    await offer('h1', 8);
    const idem = { idem_key: `${ACCOUNT}:once`, idem_print: 'print', idem_extra: Buffer.from('{}') };
    const { core, first, created_ms } = await rig.single(1, { idem, operation: 'op1' });
    const { task } = await pushed();
    assert.deepEqual([task.flight.core, task.index], [core, first]);
    const record = { print: 'print', done: { reply: `${core},${first},${created_ms}`, extra: '{}' } };
    assert.deepEqual(await readRecord(rig.redis, 0, idem.idem_key), record);
    await assert.rejects(rig.single(1, { idem, operation: 'op2' }), /the idempotency key is taken/);
    assert.deepEqual(await rig.single(1, { operation: 'op1' }), { core, first, created_ms });
    assert.equal((await rig.batch(core)).states.slice(first), 'p');
  });

  test('gets it by the claim of that number where the bell is lost', async () => {
    await offer('h1', 8);
    const { core, first } = await rig.single();
    const { task } = await pushed();
    const claimed = await rig.claim('h1', 10, { call_no: 8 });
    assert.deepEqual(places(claimed), [`${core},${first}`]);
    assert.deepEqual(claimed[0]?.payload, task.payload);
    assert.equal(claimed[0]?.flight.name, task.flight.name);
  });

  test('gets one task', async () => {
    await offer('h1', 8);
    await rig.single();
    const { core, first } = await rig.single();
    assert.deepEqual(places(await rig.claim('h2', 10)), [`${core},${first}`]);
  });

  test('has what it holds recovered when it is silent', async () => {
    await offer('h1', 8);
    const { core, first } = await rig.single();
    await rig.passWith('h2', SETTINGS.silence_ms + 2_000);
    const again = await rig.claim('h2', 10);
    assert.deepEqual(places(again), [`${core},${first}`]);
    assert.deepEqual([again[0]?.attempt, again[0]?.recoveries], [2, 1]);
  });

  test('gets nothing that has a time, nor many at once, nor what is large', async () => {
    await offer('h1', 8);
    await rig.single([{ due_ms: T0 + 1_000 }]);
    await rig.single(2);
    await rig.single([{ payload: JSON.stringify('x'.repeat(20_000)) }]);
    await rig.create({ tasks: 1 });
    assert.equal((await rig.claim('h2', 10)).length, 4);
  });

  test('gets nothing when it has taken that back', async () => {
    await offer('h1', 8);
    assert.equal(await stands('h1', 'check'), true);
    assert.equal(await stands('h1', 'end'), false);
    await rig.single();
    assert.equal((await rig.claim('h2', 10)).length, 1);
    assert.equal(await stands('h1', 'check'), false);
  });

  test('takes back what is its own, and nobody else’s', async () => {
    await offer('h1', 8);
    assert.deepEqual([await stands('h2', 'check'), await stands('h2', 'end'), await stands('h1', 'check')], [false, false, true]);
    await endOffer(rig.redis, 0, 'h');
    assert.equal(await stands('h1', 'check'), true);
    await endOffer(rig.redis, 0, 'h1');
    assert.equal(await stands('h1', 'check'), false);
  });

  test('may say that it is where Redis is full', async () => {
    await rig.redis.config('SET', 'maxmemory', '1');
    try {
      await turn(
        rig.redis,
        0,
        { ...SETTINGS, holder: 'h1' },
        { settlements: [], tick: false, claim: null, offer: { does: 'make', call_no: 8 } },
      );
      assert.equal(await stands('h1', 'check'), true);
    } finally {
      await rig.redis.config('SET', 'maxmemory', '0');
    }
  });

  test('counts as heard of from then on, whatever it was before', async () => {
    await offer('h1', 8);
    await rig.single();
    await rig.settle('h1', [(await pushed()).task], 'c');
    // Its mark is as old as may be when the next task comes.
    rig.pass(SETTINGS.silence_ms - 100);
    await turn(
      rig.redis,
      0,
      { ...SETTINGS, holder: 'h1' },
      { settlements: [], tick: false, claim: null, offer: { does: 'make', call_no: 10 } },
    );
    await rig.single();
    await rig.passWith('h2', 200);
    assert.deepEqual(await rig.claim('h2', 10), []);
    assert.equal((await rig.active('h1')).length, 1);
  });

  test('waits where others of its account wait for that host', async () => {
    await offer('h1', 8);
    await rig.single(2);
    await rig.single();
    assert.equal((await rig.claim('h2', 10)).length, 3);
    await rig.single();
    assert.deepEqual(places(await rig.claim('h2', 10)), []);
  });

  test('may say more than is known here, or something else', async () => {
    await rig.redis.hset(keys.partition(0), 'free', 'h1 8 5000 and more');
    await rig.single();
    assert.deepEqual([(await pushed()).holder, await rig.redis.hget(keys.partition(0), 'free')], ['h1', '']);
    await rig.redis.hset(keys.partition(0), 'free', 'nonsense');
    await rig.single();
    assert.equal((await rig.claim('h2', 10)).length, 1);
  });
});
