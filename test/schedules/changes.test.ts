// Schedules that are changed, deleted or run by hand, against a real Redis, by a clock that the tests turn.
import assert from 'node:assert/strict';
import { after, beforeEach, describe, test } from 'node:test';
import { newOperation } from '../../src/store/batches.ts';
import { keys } from '../../src/store/keys.ts';
import { trigger } from '../../src/store/schedule-runs.ts';
import { deleteSchedule, patchSchedule } from '../../src/store/schedules.ts';
import { ACCOUNT, SETTINGS, startRig } from '../helpers/rig.ts';
import { Ticks, templateOf } from '../helpers/ticks.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

const rig = await startRig();
after(() => rig.redis.disconnect());
let ticks = new Ticks(rig);
/** The full hour that tests begin at; T0 is one. */
let t0 = 0;
beforeEach(async () => {
  Object.assign(SETTINGS, { keep_ms: 7 * DAY_MS, tray_keep_ms: DAY_MS });
  await rig.reset();
  rig.checks = true;
  ticks = new Ticks(rig);
  t0 = rig.now_ms;
});

/** What of a schedule can be seen to have happened. */
async function seen(core: string): Promise<{ count: number; last: number | null }> {
  const { executions, last_ms } = await ticks.row(core);
  return { count: executions, last: last_ms === null ? null : last_ms - t0 };
}

describe('a change', () => {
  const change = async (core: string, cron: string): Promise<void> => {
    const timing = { cron, timezone: 'UTC', start_ms: null, end_ms: null };
    const outcome = await patchSchedule(rig.redis, await ticks.row(core), { status: 'active', timing, tick: ticks.planned(timing) });
    assert.equal(outcome, 'patched');
  };

  test('in the lead window leaves the run that is there, and its tick gets no second one', async () => {
    const core = await ticks.make({ cron: '0 * * * *' });
    await ticks.run(57 * MINUTE_MS);
    await change(core, '58,59,0 * * * *');
    await ticks.run(3 * MINUTE_MS, { work: false });
    assert.deepEqual(
      (await ticks.runs(core)).map((ms) => (ms - t0) / MINUTE_MS),
      [58, 59, 60],
    );
    assert.equal((await ticks.row(core)).executions, 3);
  });

  test('that another overtook is refused', async () => {
    const core = await ticks.make({ cron: '0 * * * *' });
    const row = await ticks.row(core);
    await change(core, '1 * * * *');
    assert.equal(await patchSchedule(rig.redis, row, { status: 'active', timing: row }), 'changed');
    await deleteSchedule(rig.redis, ACCOUNT, core);
    assert.equal(await patchSchedule(rig.redis, row, { status: 'active', timing: row }), 'missing');
  });

  test('from a task to a batch and back takes effect with the next run, and leaves nothing behind', async () => {
    const core = await ticks.make({ cron: '* * * * *' });
    await ticks.run(MINUTE_MS);
    const switched = async (batch?: number): Promise<void> => {
      const row = await ticks.row(core);
      const template = templateOf(batch === undefined ? {} : { batch });
      await patchSchedule(rig.redis, row, { status: 'active', timing: row, template });
      await ticks.run(MINUTE_MS);
      while ((await ticks.work()).length > 0);
    };
    await switched(2_500);
    assert.equal(await rig.redis.zcard(keys.accountBatches(0, ACCOUNT)), 1);
    await switched(10);
    await switched();
    assert.equal(await rig.redis.zcard(keys.accountBatches(0, ACCOUNT)), 2);
    assert.equal((await ticks.runs(core)).length, 4);
    const own = (await rig.redis.keys('*sched:*'))
      .filter((key) => key.includes(core))
      .map((key) => key.slice(key.indexOf(core) + core.length));
    assert.deepEqual(own.sort(), ['', ':doc', ':runs']);
  });

  test('to disabled takes it off the list of what is due, and to enabled puts its first tick after now on it', async () => {
    const core = await ticks.make({ cron: '* * * * *' });
    await ticks.run(MINUTE_MS);
    const row = await ticks.row(core);
    await patchSchedule(rig.redis, row, { status: 'disabled', timing: row, tick: null });
    rig.pass(10 * MINUTE_MS);
    assert.equal(await ticks.look(), 0);
    await patchSchedule(rig.redis, await ticks.row(core), { status: 'active', timing: row, tick: ticks.planned(row) });
    await ticks.run(MINUTE_MS);
    assert.deepEqual(
      (await ticks.runs(core)).map((ms) => (ms - t0) / MINUTE_MS),
      [1, 12],
    );
    assert.equal(await rig.redis.zcard(keys.accountSchedules(0, ACCOUNT, 'active')), 1);
    assert.equal(await rig.redis.zcard(keys.accountSchedules(0, ACCOUNT, 'disabled')), 0);
  });

  test('deleting leaves nothing of it but what it made', async () => {
    const core = await ticks.make({ cron: '* * * * *', batch: 1_500 });
    await ticks.run(MINUTE_MS, { work: false });
    assert.equal(await deleteSchedule(rig.redis, 'rival', core), false);
    assert.equal(await deleteSchedule(rig.redis, ACCOUNT, core), true);
    assert.equal(await deleteSchedule(rig.redis, ACCOUNT, core), false);
    assert.deepEqual(await rig.redis.keys(`*${core}*`), []);
    assert.deepEqual([await rig.redis.zcard(keys.schedules(0)), await rig.redis.zcard(keys.accountSchedules(0, ACCOUNT))], [0, 0]);
    assert.equal(await ticks.look(), 0);
    assert.ok((await ticks.work()).length >= 500);
  });
});

describe('a run made by hand', () => {
  const by_hand = async (core: string, operation = newOperation()) =>
    trigger(rig.redis, await ticks.row(core), { operation, now_ms: rig.now_ms });

  test('runs now, counts, and leaves the ticks alone', async () => {
    const core = await ticks.make({ cron: '0 * * * *' });
    rig.pass(MINUTE_MS);
    const outcome = await by_hand(core);
    assert.equal(outcome.kind, 'made');
    assert.deepEqual(await seen(core), { count: 1, last: MINUTE_MS });
    assert.equal((await ticks.work()).length, 1);
    await ticks.run(HOUR_MS);
    assert.deepEqual(await seen(core), { count: 2, last: HOUR_MS });
  });

  test('at the very time of a tick takes nothing from it', async () => {
    const core = await ticks.make({ cron: '0 * * * *', batch: 3 });
    rig.pass(HOUR_MS);
    await by_hand(core);
    await ticks.look();
    assert.deepEqual(await ticks.runs(core), [t0 + HOUR_MS, t0 + HOUR_MS]);
  });

  test('under the same operation is made once', async () => {
    for (const options of [{}, { batch: 20 }, { batch: 3_000 }]) {
      const core = await ticks.make({ cron: '0 0 1 1 *', ...options });
      const operation = newOperation();
      const [first, again] = [await by_hand(core, operation), await by_hand(core, operation)];
      assert.ok(first.kind === 'made' && again.kind === 'made');
      assert.deepEqual(again.run, first.run);
      assert.equal((await ticks.runs(core)).length, 1);
    }
  });
});
