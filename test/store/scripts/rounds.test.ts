// lua/batch/{retry,sweep}.lua and rounds of single tasks: what failed in a finished batch runs again.
import assert from 'node:assert/strict';
import { after, beforeEach, describe, test } from 'node:test';
import { newOperation } from '../../../src/store/batches.ts';
import { keys } from '../../../src/store/keys.ts';
import type { Claimed, Verdict } from '../../../src/store/partition.ts';
import { listTasks } from '../../helpers/listing.ts';
import { ACCOUNT, type CreateOptions, DUE_AHEAD_MS, places, startRig, T0 } from '../../helpers/rig.ts';

const rig = await startRig();
after(() => rig.redis.disconnect());
beforeEach(async () => {
  rig.checks = true;
  await rig.reset();
});

const HOUR_MS = 3_600_000;

/** Everything that can be claimed now. */
async function claimAll(holder = 'h1'): Promise<Claimed[]> {
  const tasks: Claimed[] = [];
  for (let idle = 0; idle < 3; ) {
    const { tasks: some, more } = await rig.claimed(holder, 128);
    tasks.push(...some);
    idle = some.length > 0 || more ? 0 : idle + 1;
  }
  return tasks;
}

/** A batch that has ended: a verdict for each of its tasks. */
async function finished(verdicts: string, options: CreateOptions = {}): Promise<string> {
  const core = await rig.create({ tasks: verdicts.length, ...options });
  const claimed = await claimAll();
  for (const verdict of new Set(verdicts)) {
    await rig.settle(
      'h1',
      claimed.filter(({ index }) => verdicts[index] === verdict),
      verdict as Verdict,
      { delay_ms: 60_000, result: '[1,2,0,500,5]' },
    );
  }
  return core;
}

/** One that expired: `-` was never started, `r` waited for its retry. */
async function expired(verdicts: string, options: CreateOptions = {}): Promise<string> {
  const core = await finished(verdicts.replaceAll('-', 'b'), { expiration_ms: HOUR_MS, ...options });
  rig.pass(HOUR_MS);
  await rig.tick('h1');
  assert.equal((await rig.batch(core)).status, 'expired');
  return core;
}

async function statuses(core: string): Promise<string[]> {
  const read = await listTasks(rig.redis, ACCOUNT, core, { status: null, limit: 1000, offset: 0 });
  return (read?.rows ?? []).map(
    ({ status, expired: over, result }) => `${status}${over ? ' expired' : ''}${result === null ? '' : ' told'}`,
  );
}

describe('batch/retry', () => {
  test('what failed waits again at once, and runs with its attempts at zero', async () => {
    const core = await finished('cffcf');
    const outcome = await rig.retryBatch(core);
    assert.deepEqual(outcome, {
      kind: 'retried',
      change: { status: 'processing', total: 5, completed: 2, failed: 0, cancelled: 0, updated_ms: rig.now_ms },
    });
    const waiting = ['completed told', 'queued', 'queued', 'completed told', 'queued'];
    assert.deepEqual(await statuses(core), waiting);
    const claimed = await claimAll();
    assert.deepEqual(places(claimed), [`${core},1`, `${core},2`, `${core},4`]);
    assert.deepEqual(
      claimed.map(({ attempt, recoveries }) => [attempt, recoveries]),
      [1, 2, 4].map(() => [1, 0]),
    );
    await rig.settle('h1', claimed, 'c');
    const { status, c, f } = await rig.batch(core);
    assert.deepEqual([status, c, f], ['completed', 5, 0]);
  });

  test('a round may fail as the first did, and the next one begins; names in flight are never used twice', async () => {
    const core = await finished('ff');
    const names = new Set<string>();
    for (let round = 1; round <= 3; round++) {
      assert.equal((await rig.retryBatch(core)).kind, 'retried');
      const [one, two] = await claimAll();
      assert.ok(one && two);
      for (const { flight } of [one, two]) {
        assert.ok(!names.has(flight.name), flight.name);
        names.add(flight.name);
      }
      await rig.settle('h1', [one, two], 'r');
      const again = await claimAll();
      assert.deepEqual(
        again.map(({ attempt }) => attempt),
        [2, 2],
      );
      await rig.settle('h1', again, 'f');
      assert.equal((await rig.batch(core)).status, 'failed');
    }
  });

  test('a batch of which nothing was completed is pending until the first task starts', async () => {
    const core = await finished('ff');
    await rig.retryBatch(core);
    assert.equal((await rig.batch(core)).status, 'pending');
    await claimAll();
    assert.equal((await rig.batch(core)).status, 'processing');
  });

  test('the round expires as long after its beginning as the first did, and ends for good', async () => {
    const core = await finished('cf', { expiration_ms: HOUR_MS });
    rig.pass(50_000);
    await rig.retryBatch(core, { expiration_ms: HOUR_MS });
    assert.equal(await rig.redis.zscore(keys.deadlines(0), core), String(rig.now_ms + HOUR_MS));
    assert.equal(await rig.redis.hexists(keys.batch(0, core), 'z'), 0);
    rig.pass(HOUR_MS);
    assert.equal((await rig.tick('h1')).expired, 1);
    assert.deepEqual(await statuses(core), ['completed told', 'failed expired']);
    const { status, f } = await rig.batch(core);
    assert.deepEqual([status, f], ['expired', 1]);
    assert.equal((await rig.retryBatch(core)).kind, 'retried');
    assert.deepEqual(places(await claimAll()), [`${core},1`]);
  });

  test('a task whose time has not come waits for it in the next round too', async () => {
    const later_ms = T0 + 2 * HOUR_MS;
    const core = await rig.create({ tasks: [{}, { due_ms: later_ms }], expiration_ms: HOUR_MS });
    await rig.settle('h1', await claimAll(), 'c');
    rig.pass(HOUR_MS);
    await rig.tick('h1');
    await rig.retryBatch(core, { expiration_ms: HOUR_MS });
    assert.deepEqual(await claimAll(), []);
    rig.pass(HOUR_MS - DUE_AHEAD_MS - 1);
    await rig.tick('h1');
    assert.deepEqual(await claimAll(), []);
    assert.equal((await rig.batch(core)).status, 'processing');
  });

  test('what an expired batch left in the queues is not run twice, and not before its time', async () => {
    const core = await expired('-r-f', { tasks: [{}, { origin: 'o2' }, {}, { origin: 'o3' }] });
    await rig.retryBatch(core, { expiration_ms: HOUR_MS });
    const claimed = await claimAll();
    assert.deepEqual(
      places(claimed).sort(),
      [0, 1, 2, 3].map((i) => `${core},${i}`),
    );
    await rig.settle('h1', claimed, 'r', { delay_ms: 600_000 });
    rig.pass(120_000); // the retry of the first round was due in between
    await rig.tick('h1');
    assert.deepEqual(await claimAll(), []);
    rig.pass(600_000);
    await rig.tick('h1');
    assert.deepEqual(
      (await claimAll()).map(({ attempt }) => attempt),
      [2, 2, 2, 2],
    );
  });

  test('thousands of tasks of many origins are dealt out segment by segment, counted as waiting from the first step', async () => {
    const count = 2_500;
    const tasks = Array.from({ length: count }, (_, i) => ({ origin: `o${i % 7}`, timeout_s: i % 2 === 0 ? 30 : 60 }));
    rig.checks = false;
    const core = await rig.create({ tasks });
    const claimed = await claimAll();
    const failed = claimed.filter(({ index }) => index % 3 === 0);
    await rig.settle(
      'h1',
      claimed.filter(({ index }) => index % 3 !== 0),
      'c',
    );
    await rig.settle('h1', failed, 'f');
    rig.checks = true;
    const retried = await rig.retryBatch(core);
    assert.ok(retried.kind === 'retried' && retried.change.failed === 0);
    const seen = new Set<string>();
    let steps = 0;
    for (let idle = 0; idle < 3; steps++) {
      const { tasks: some, more } = await rig.claimed('h1', 100);
      const { n, c, f, x, states } = await rig.batch(core);
      assert.deepEqual([n, c, f, x], [count, count - failed.length, 0, 0]);
      assert.equal(states.length, count);
      for (const place of places(some)) {
        assert.ok(!seen.has(place));
        seen.add(place);
      }
      idle = some.length > 0 || more ? 0 : idle + 1;
    }
    assert.equal(seen.size, failed.length);
    assert.ok(steps >= 8);
    assert.equal(await rig.redis.hexists(keys.batch(0, core), 'o'), 0);
  });

  test('tasks that were added one by one run again too', async () => {
    const core = await rig.create({ tasks: 3, hold: true });
    for (let k = 0; k < 20; k++) await rig.add(core, [{ origin: `o${k % 3}` }, { origin: 'o1' }]);
    await rig.settle('h1', await claimAll(), 'f');
    await rig.release(core);
    await rig.retryBatch(core);
    assert.equal((await claimAll()).length, 43);
  });

  test('tasks may be added while a round is dealt out, and are no part of it', async () => {
    const core = await finished('ff');
    await rig.retryBatch(core);
    await rig.add(core, [{ origin: 'o9' }]);
    const first = await claimAll();
    assert.deepEqual(
      places(first).sort(),
      [0, 1, 2].map((i) => `${core},${i}`),
    );
    await rig.settle('h1', first, 'f');
    const { status, f } = await rig.batch(core);
    assert.deepEqual([status, f], ['failed', 3]);
  });

  test('what a round has not reached is cancelled with the batch, or alone', async () => {
    const core = await finished('cff');
    await rig.retryBatch(core);
    assert.equal(await rig.cancelTask(core, 1), 'cancelled');
    assert.equal(await rig.cancelTask(core, 0), 'state');
    assert.deepEqual(await statuses(core), ['completed told', 'cancelled told', 'queued']);
    assert.equal(await rig.retryTask(core, 2), 'state');
    await rig.cancel(core);
    assert.deepEqual(await statuses(core), ['completed told', 'cancelled told', 'cancelled']);
    const { status, x } = await rig.batch(core);
    assert.deepEqual([status, x], ['cancelled', 2]);
    assert.deepEqual(await claimAll(), []);
  });

  test('the same operation again answers as the first and begins no other round', async () => {
    const core = await finished('f');
    const operation = newOperation();
    const first = await rig.retryBatch(core, { operation });
    assert.deepEqual(await rig.retryBatch(core, { operation }), first);
    assert.equal(await rig.redis.hget(keys.batch(0, core), 'k'), '1');
  });

  test('a batch that has not failed, or is not over, keeps its state', async () => {
    const live = await rig.create({ tasks: 2 });
    await rig.settle('h1', (await claimAll()).slice(0, 1), 'f');
    const completed = await finished('cc');
    const cancelled = await finished('cr');
    await rig.cancel(cancelled);
    const running = await rig.create({ tasks: 1, expiration_ms: 1 });
    await rig.claim('h2', 5);
    const held = await rig.create({ tasks: 1, hold: true, expiration_ms: 1 });
    await rig.settle(
      'h3',
      (await rig.claim('h3', 5)).filter(({ flight }) => flight.core === held),
      'c',
    );
    rig.pass(1);
    await rig.tick('h2');
    const before = await rig.dump();
    for (const [core, kind] of [
      [live, 'state'],
      [completed, 'state'],
      [cancelled, 'state'],
      [running, 'running'],
      [held, 'nothing'],
    ] as const) {
      assert.equal((await rig.retryBatch(core)).kind, kind);
    }
    const failed = await finished('f');
    assert.equal((await rig.retryBatch(failed, { account_id: 'rival' })).kind, 'missing');
    assert.equal((await rig.retryBatch((await rig.single()).core)).kind, 'missing');
    assert.equal(before.get(`b:${live}`)?.items.length, (await rig.dump()).get(`b:${live}`)?.items.length);
  });

  test('results of the round before are gone from what runs again, and stay with what does not', async () => {
    const core = await finished(`${'f'.repeat(17)}c${'f'.repeat(3)}`);
    await rig.retryBatch(core);
    await rig.claim('h1', 1);
    const told = (await statuses(core)).map((text) => text.includes('told'));
    assert.deepEqual(
      told.map((yes, i) => (yes ? i : -1)).filter((i) => i >= 0),
      [17],
    );
    const fields = await rig.redis.hkeys(keys.segment(0, core, 0));
    assert.deepEqual(fields.filter((name) => name.startsWith('r')).sort(), ['r1']);
  });
});

describe('task/retry in a finished batch', () => {
  test('is a round of this task alone', async () => {
    const core = await finished('cfff');
    assert.equal(await rig.retryTask(core, 2, ACCOUNT, 'o1', { expiration_ms: HOUR_MS }), 'queued');
    const { status, c, f, round } = await rig.batch(core);
    assert.deepEqual([status, c, f, round], ['processing', 1, 2, 1]);
    assert.equal(await rig.redis.zscore(keys.deadlines(0), core), String(rig.now_ms + 86_400_000));
    assert.equal(await rig.retryTask(core, 1), 'queued');
    assert.equal((await rig.batch(core)).round, 1, 'a second task joins the round');
    const claimed = await claimAll();
    assert.deepEqual(places(claimed), [`${core},2`, `${core},1`]);
    await rig.settle('h1', claimed, 'c');
    const ended = await rig.batch(core);
    assert.deepEqual([ended.status, ended.c, ended.f], ['failed', 3, 1]);
  });

  test('of an expired one leaves the others failed, as they were', async () => {
    const core = await expired('-r-fc');
    assert.equal(await rig.retryTask(core, 1), 'queued');
    assert.deepEqual(await statuses(core), ['failed expired', 'queued', 'failed expired', 'failed told', 'completed told']);
    const { status, c, f } = await rig.batch(core);
    assert.deepEqual([status, c, f], ['processing', 1, 3]);
    const claimed = await claimAll();
    assert.deepEqual(places(claimed), [`${core},1`]);
    await rig.settle('h1', claimed, 'c');
    assert.equal((await rig.batch(core)).status, 'failed');
    await rig.retryBatch(core);
    assert.deepEqual(
      (await statuses(core)).map((text) => text.replace(' told', '')),
      ['queued', 'completed', 'queued', 'queued', 'completed'],
    );
    assert.deepEqual(
      places(await claimAll()).sort(),
      [0, 2, 3].map((i) => `${core},${i}`),
    );
  });

  test('what failed by expiry in an earlier round can be retried while a later one runs', async () => {
    const core = await expired('---');
    await rig.retryTask(core, 0);
    assert.equal(await rig.retryTask(core, 2), 'queued');
    assert.deepEqual(
      places(await claimAll()).sort(),
      [0, 2].map((i) => `${core},${i}`),
    );
  });

  test('of one that expired in a round not yet dealt out', async () => {
    const core = await finished('ffff', { expiration_ms: HOUR_MS });
    await rig.retryBatch(core, { expiration_ms: HOUR_MS });
    rig.pass(HOUR_MS);
    await rig.tick('h1');
    assert.deepEqual(await statuses(core), Array(4).fill('failed expired'));
    assert.equal(await rig.retryTask(core, 3), 'queued');
    assert.deepEqual((await rig.batch(core)).states, 'eeer');
    assert.deepEqual(places(await claimAll()), [`${core},3`]);
  });

  test('not of one that was cancelled, and not while something of an expired one runs', async () => {
    const cancelled = await finished('fr');
    await rig.cancel(cancelled);
    assert.equal(await rig.retryTask(cancelled, 0), 'state');
    const running = await rig.create({ tasks: 2, expiration_ms: 1 });
    await rig.settle('h2', (await rig.claim('h2', 2)).slice(0, 1), 'f');
    rig.pass(1);
    await rig.tick('h2');
    assert.equal(await rig.retryTask(running, 0), 'state');
  });
});
