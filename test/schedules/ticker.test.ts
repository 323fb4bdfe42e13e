// Ticks against a real Redis, by a clock that the tests turn: lead, rule 3, downtime, races.
import assert from 'node:assert/strict';
import { after, beforeEach, describe, test } from 'node:test';
import { ID_PREFIX } from '../../src/base/id.ts';
import { decideDue } from '../../src/schedules/ticker.ts';
import { readBatch } from '../../src/store/batches.ts';
import { keys } from '../../src/store/keys.ts';
import { listScheduleTasks } from '../../src/store/schedule-tasks.ts';
import { patchSchedule, scheduleLag } from '../../src/store/schedules.ts';
import { ACCOUNT, DUE_AHEAD_MS, SETTINGS, startRig } from '../helpers/rig.ts';
import { CATCH_UP_MS, LEAD_MS, Ticks, templateOf } from '../helpers/ticks.ts';

const SECOND_MS = 1_000;
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

describe('a run', () => {
  test('is made ahead of its time by the lead, waits for it, and carries what the template says', async () => {
    const core = await ticks.make({ cron: '0 * * * *' });
    assert.equal(await ticks.look(), t0 + HOUR_MS - LEAD_MS);
    rig.pass(HOUR_MS - LEAD_MS - 1);
    await ticks.look();
    assert.deepEqual(await ticks.runs(core), []);
    rig.pass(1);
    assert.equal(await ticks.look(), t0 + 2 * HOUR_MS - LEAD_MS);
    assert.deepEqual(await ticks.runs(core), [t0 + HOUR_MS]);
    assert.deepEqual(await seen(core), { count: 0, last: null });
    rig.pass(LEAD_MS - DUE_AHEAD_MS - 1);
    assert.deepEqual(await ticks.work(), []);
    rig.pass(DUE_AHEAD_MS + 1);
    assert.deepEqual(await seen(core), { count: 1, last: HOUR_MS });
    const [task, ...others] = await ticks.work();
    assert.deepEqual(others, []);
    assert.equal(task?.head.toString(), `{"target":"https://a.example/","at":${t0 + HOUR_MS - LEAD_MS},"for":${t0 + HOUR_MS}}`);
    assert.equal(task?.payload?.toString(), '{"big":12345678901234567890,"e":[]}');
    assert.deepEqual([task?.due_ms, task?.single, task?.account_id], [t0 + HOUR_MS, true, ACCOUNT]);
  });

  test('of a short period is made when three quarters of it are left', async () => {
    const core = await ticks.make({ cron: '* * * * *' });
    assert.equal(await ticks.look(), t0 + 15 * SECOND_MS);
    rig.pass(15 * SECOND_MS);
    assert.equal(await ticks.look(), t0 + 75 * SECOND_MS);
    assert.deepEqual(await ticks.runs(core), [t0 + MINUTE_MS]);
  });

  test('is made at once where less than the lead is left', async () => {
    rig.pass(58 * MINUTE_MS);
    const core = await ticks.make({ cron: '0 * * * *' });
    await ticks.look();
    assert.deepEqual(await ticks.runs(core), [t0 + HOUR_MS]);
  });

  test('comes once for every tick, day after day', async () => {
    const minutely = await ticks.make({ cron: '* * * * *' });
    const daily = await ticks.make({ cron: '30 2 * * *', timezone: 'America/New_York' });
    rig.checks = false;
    await ticks.run(6 * HOUR_MS);
    assert.deepEqual(await seen(minutely), { count: 360, last: 6 * HOUR_MS });
    await ticks.run(2 * DAY_MS - 6 * HOUR_MS);
    assert.equal((await ticks.row(daily)).executions, 2);
    assert.deepEqual([ticks.made.length, ticks.skipped], [2_880 + 2, { overlap: 0, missed: 0, limiter: 0 }]);
    await rig.check();
  });

  test('of a batch template is a batch of its own, with a life that begins with its time', async () => {
    const core = await ticks.make({ cron: '0 * * * *', batch: 40 });
    rig.pass(HOUR_MS - LEAD_MS);
    await ticks.look();
    const [id = ''] = await rig.redis.zrange(keys.accountBatches(0, ACCOUNT), 0, '-1');
    const batch = await readBatch(rig.redis, ACCOUNT, id);
    assert.deepEqual([batch?.status, batch?.total], ['pending', 40]);
    assert.deepEqual(JSON.parse(batch?.doc ?? ''), {
      notifications: {},
      options: { atomic: true, expiration: 1, hold: false },
      schedule_id: ID_PREFIX.schedule + core,
      scheduled_for: t0 + HOUR_MS,
    });
    assert.equal(await rig.redis.zscore(keys.deadlines(0), id), String(t0 + 2 * HOUR_MS));
    assert.deepEqual(await rig.redis.smembers(keys.taskKeys(0, id)), ['abcdefghijklmnop']);
    rig.pass(LEAD_MS);
    assert.equal((await ticks.work()).length, 40);
    assert.equal((await rig.batch(id)).status, 'completed');
    await ticks.run(HOUR_MS);
    assert.equal(await rig.redis.zcard(keys.accountBatches(0, ACCOUNT)), 2);
  });

  test('of a large template is copied segment by segment, to many origins too', async () => {
    rig.checks = false;
    const core = await ticks.make({ cron: '0 * * * *', batch: 4_500 });
    rig.pass(HOUR_MS);
    await ticks.look();
    const [id = ''] = await rig.redis.zrange(keys.accountBatches(0, ACCOUNT), 0, '-1');
    let done = 0;
    for (let turns = 0; turns < 20; turns++) done += (await ticks.work()).length;
    assert.equal(done, 4_500);
    assert.equal((await rig.batch(id)).status, 'completed');
    assert.deepEqual(await seen(core), { count: 1, last: HOUR_MS });
    const leftovers = await rig.redis.keys('*+new*');
    assert.deepEqual(leftovers, []);
  });
});

describe('beginning and end', () => {
  test('are inclusive, and after the end nothing is left', async () => {
    const core = await ticks.make({ cron: '0 * * * *', start_ms: t0 + 2 * HOUR_MS, end_ms: t0 + 4 * HOUR_MS });
    await ticks.run(8 * HOUR_MS);
    assert.deepEqual(
      (await ticks.runs(core)).map((ms) => (ms - t0) / HOUR_MS),
      [2, 3, 4],
    );
    assert.deepEqual(await seen(core), { count: 3, last: 4 * HOUR_MS });
    assert.equal((await ticks.row(core)).status, 'active');
    assert.equal(await rig.redis.zcard(keys.schedules(0)), 0);
  });

  test('the lead of the first tick goes by the expression, not by the beginning', async () => {
    await ticks.make({ cron: '* * * * *', start_ms: t0 + HOUR_MS });
    assert.equal(await ticks.look(), t0 + HOUR_MS - 45 * SECOND_MS);
  });
});

describe('rule 3', () => {
  test('a minutely schedule whose task takes ten minutes runs every eleven', async () => {
    const core = await ticks.make({ cron: '* * * * *' });
    await ticks.run(MINUTE_MS, { work: false });
    const running = await ticks.work(null);
    assert.equal(running.length, 1);
    await ticks.run(10 * MINUTE_MS, { work: false });
    assert.deepEqual(await ticks.runs(core), [t0 + MINUTE_MS]);
    await rig.settle('h1', running, 'c');
    await ticks.run(MINUTE_MS, { work: false });
    assert.deepEqual(await ticks.runs(core), [t0 + MINUTE_MS, t0 + 12 * MINUTE_MS]);
    assert.deepEqual([ticks.skipped.overlap, await ticks.skips(core)], [10, 10]);
  });

  test('waiting for a retry counts as unfinished, having failed for good does not', async () => {
    const core = await ticks.make({ cron: '* * * * *' });
    await ticks.run(MINUTE_MS, { work: false });
    await rig.settle('h1', await ticks.work(null), 'r', { delay_ms: 90 * SECOND_MS });
    await ticks.run(MINUTE_MS, { work: false });
    assert.deepEqual([(await ticks.runs(core)).length, ticks.skipped.overlap], [1, 1]);
    await ticks.run(30 * SECOND_MS, { work: false });
    await ticks.work('f');
    await ticks.run(60 * SECOND_MS, { work: false });
    assert.deepEqual([(await ticks.runs(core)).length, ticks.skipped.overlap], [2, 2]);
  });

  test('a batch that has begun and not ended stands in the way; one whose batch is gone does not', async () => {
    const core = await ticks.make({ cron: '* * * * *', batch: 3 });
    await ticks.run(MINUTE_MS, { work: false });
    const running = await ticks.work(null);
    await rig.settle('h1', running.slice(1), 'c');
    await ticks.run(MINUTE_MS, { work: false });
    assert.deepEqual([(await ticks.runs(core)).length, ticks.skipped.overlap], [1, 1]);
    await rig.settle('h1', running.slice(0, 1), 'c');
    await ticks.run(MINUTE_MS, { work: false });
    assert.equal((await ticks.runs(core)).length, 2);
  });

  test('a run that waits in the queue does not stand in the way, one that may wait for a limiter does', async () => {
    const plain = await ticks.make({ cron: '* * * * *' });
    const limited = await ticks.make({ cron: '* * * * *', limiter: 'slow' });
    await ticks.run(3 * MINUTE_MS, { work: false });
    assert.equal((await ticks.runs(plain)).length, 3);
    assert.equal((await ticks.runs(limited)).length, 1);
  });

  test('a template whose limiter is gone makes none and says so', async () => {
    const core = await ticks.make({ cron: '* * * * *', limiter: 'fast' });
    ticks.missing = ['fast'];
    await ticks.run(2 * MINUTE_MS);
    assert.deepEqual(await ticks.runs(core), []);
    assert.deepEqual([ticks.skipped.limiter, await ticks.skips(core)], [2, 2]);
    assert.deepEqual((await ticks.row(core)).last_error, { code: 'rate_limiter_not_found', at_ms: t0 + 75 * SECOND_MS });
  });
});

test('a tick that is decided in its time is not missed, however short the time is for which missed ones are made up for', async () => {
  ticks.deps.settings.catch_up_ms = 0;
  ticks.deps.settings.lead_ms = 0;
  const core = await ticks.make({ cron: '* * * * *' });
  rig.pass(MINUTE_MS + 5);
  await ticks.look();
  rig.pass(MINUTE_MS);
  await ticks.look();
  rig.pass(3 * MINUTE_MS);
  await ticks.look();
  assert.deepEqual(
    (await ticks.runs(core)).map((ms) => (ms - t0) / MINUTE_MS),
    [1, 2, 5],
  );
  assert.equal(ticks.skipped.missed, 2);
});

describe('after a downtime', () => {
  const offsets = (runs: readonly number[]): number[] => runs.map((ms) => (ms - t0) / MINUTE_MS);

  test('of 30 minutes every tick is made up for, once and in order', async () => {
    const minutely = await ticks.make({ cron: '* * * * *' });
    const hourly = await ticks.make({ cron: '15 * * * *' });
    const disabled = await ticks.make({ cron: '* * * * *', enabled: false });
    await ticks.run(5 * MINUTE_MS);
    rig.pass(30 * MINUTE_MS);
    await ticks.look();
    assert.deepEqual(
      offsets(await ticks.runs(minutely)),
      Array.from({ length: 35 }, (_, i) => i + 1),
    );
    assert.deepEqual(offsets(await ticks.runs(hourly)), [15]);
    assert.deepEqual(await ticks.runs(disabled), []);
    assert.deepEqual(ticks.skipped, { overlap: 0, missed: 0, limiter: 0 });
    assert.equal((await ticks.work()).length, 31);
    await ticks.run(MINUTE_MS);
    assert.equal((await ticks.row(minutely)).executions, 36);
    assert.equal((await ticks.runs(minutely)).at(-1), t0 + 36 * MINUTE_MS);
  });

  test('of three hours those of the last one are, and the older ones are counted', async () => {
    const minutely = await ticks.make({ cron: '* * * * *' });
    const hourly = await ticks.make({ cron: '15 * * * *' });
    await ticks.run(5 * MINUTE_MS);
    rig.pass(180 * MINUTE_MS);
    await ticks.look();
    assert.deepEqual(
      offsets(await ticks.runs(minutely)).filter((minute) => minute > 5),
      Array.from({ length: 61 }, (_, i) => 185 - CATCH_UP_MS / MINUTE_MS + i),
    );
    assert.deepEqual(offsets(await ticks.runs(hourly)), [135]);
    assert.deepEqual(ticks.skipped, { overlap: 0, missed: 119 + 2, limiter: 0 });
    assert.deepEqual([await ticks.skips(minutely), await ticks.skips(hourly)], [119, 2]);
  });

  test('what was running before it stands in the way of all that were missed', async () => {
    const core = await ticks.make({ cron: '* * * * *' });
    await ticks.run(MINUTE_MS, { work: false });
    const running = await ticks.work(null);
    rig.pass(10 * MINUTE_MS);
    await ticks.look();
    assert.deepEqual(await ticks.runs(core), [t0 + MINUTE_MS]);
    await rig.settle('h1', running, 'c');
    await ticks.run(MINUTE_MS);
    assert.deepEqual([(await ticks.runs(core)).length, ticks.skipped.overlap], [2, 10]);
  });

  for (const [name, batch] of [
    ['task', undefined],
    ['batch', 3],
  ] as const)
    test(`a ${name} that was made ahead and begins only now does not stand in the way of what was missed`, async () => {
      const core = await ticks.make({ cron: '* * * * *', ...(batch === undefined ? {} : { batch }) });
      rig.pass(15 * SECOND_MS);
      await ticks.look();
      rig.pass(10 * MINUTE_MS);
      assert.equal((await ticks.work(null)).length, batch ?? 1);
      await ticks.look();
      assert.deepEqual(
        offsets(await ticks.runs(core)),
        Array.from({ length: 11 }, (_, i) => i + 1),
      );
      assert.deepEqual(ticks.skipped, { overlap: 0, missed: 0, limiter: 0 });
    });

  test('what was made up for and runs stands in the way of the next tick in time', async () => {
    const core = await ticks.make({ cron: '* * * * *' });
    rig.pass(3 * MINUTE_MS + SECOND_MS);
    await ticks.look();
    assert.equal((await ticks.work(null)).length, 3);
    await ticks.run(MINUTE_MS, { work: false });
    assert.deepEqual([(await ticks.runs(core)).length, ticks.skipped.overlap], [3, 1]);
  });

  test('a limiter that cannot be read holds up the schedules that take from it alone', async () => {
    const limited = await ticks.make({ cron: '* * * * *', limiter: 'far' });
    const free = await ticks.make({ cron: '* * * * *' });
    let reachable = false;
    const missingLimiters = async (): Promise<[]> => {
      if (!reachable) throw new Error('not now');
      return [];
    };
    rig.pass(MINUTE_MS);
    const deps = { ...ticks.deps, missingLimiters };
    const looked = await decideDue(deps, 0);
    assert.deepEqual([looked.decided, looked.more], [1, true]);
    assert.deepEqual([(await ticks.runs(free)).length, (await ticks.runs(limited)).length], [1, 0]);
    await assert.rejects(decideDue(deps, 0), /not now/);
    reachable = true;
    await decideDue(deps, 0);
    assert.deepEqual([(await ticks.runs(free)).length, (await ticks.runs(limited)).length], [1, 1]);
  });

  test('of a year a schedule of every second is back at once', async () => {
    await ticks.make({ cron: '* * * * * *' });
    rig.checks = false;
    rig.pass(365 * DAY_MS);
    const began_ms = performance.now();
    const { decided } = await decideDue(ticks.deps, 0);
    assert.ok(performance.now() - began_ms < 5_000);
    assert.equal(decided, 32);
    assert.equal(ticks.skipped.missed, (365 * DAY_MS - CATCH_UP_MS) / SECOND_MS - 1);
  });
});

describe('two tickers', () => {
  test('at the same schedules decide every tick once', async () => {
    rig.checks = false;
    const cores: string[] = [];
    for (let i = 0; i < 50; i++)
      cores.push(await ticks.make({ cron: '* * * * * *', ...(i % 5 === 0 ? { batch: i % 2 ? 2_100 : 3 } : {}) }));
    const others = [ticks, new Ticks(rig), new Ticks(rig)];
    for (let step = 0; step < 40; step++) {
      rig.pass(250);
      await Promise.all(others.map((one) => decideDue(one.deps, 0)));
      if (step % 4 === 0) await ticks.work();
    }
    await ticks.look();
    const made = others.reduce((sum, one) => sum + one.made.length, 0);
    let runs = 0;
    for (const core of cores) {
      const times = await ticks.runs(core);
      assert.equal(new Set(times).size, times.length);
      const next = Number(await rig.redis.hget(keys.schedule(0, core), 'k'));
      assert.equal(times.length + (await ticks.skips(core)), (next - t0) / SECOND_MS - 1, 'each tick before the next one was decided');
      runs += times.length;
    }
    assert.equal(made, runs);
    await rig.check();
  });
});

describe('the tasks of a schedule', () => {
  test('are listed newest first, counted and filtered, those of batches too', async () => {
    const core = await ticks.make({ cron: '* * * * *' });
    await ticks.run(3 * MINUTE_MS);
    const row = await ticks.row(core);
    await patchSchedule(rig.redis, row, { status: 'active', timing: row, template: templateOf({ batch: 5 }) });
    await ticks.run(MINUTE_MS, { work: false });
    const running = await ticks.work(null);
    await rig.settle('h1', running.slice(0, 2), 'f');
    const page = async (status: 'completed' | 'failed' | 'processing' | 'queued' | null, limit = 100, offset = 0) => {
      const { total, tasks } = await listScheduleTasks(rig.redis, ACCOUNT, core, { status, limit, offset });
      return [total, tasks.map(({ row: task }) => task.index)] as const;
    };
    assert.deepEqual(await page(null), [8, [4, 3, 2, 1, 0, 0, 0, 0]]);
    assert.deepEqual(await page(null, 3, 4), [8, [0, 0, 0]]);
    assert.deepEqual(await page('failed'), [2, [1, 0]]);
    assert.deepEqual(await page('processing'), [3, [4, 3, 2]]);
    assert.deepEqual(await page('completed', 2, 1), [3, [0, 0]]);
    assert.deepEqual(await page('queued'), [0, []]);
    assert.equal((await listScheduleTasks(rig.redis, 'rival', core, { status: null, limit: 10, offset: 0 })).total, 0);
  });

  test('that retention took are not among them, and leave the list', async () => {
    rig.checks = false;
    SETTINGS.tray_keep_ms = 50 * SECOND_MS;
    const core = await ticks.make({ cron: '*/10 * * * *' });
    await ticks.run(DAY_MS);
    const { total } = await listScheduleTasks(rig.redis, ACCOUNT, core, { status: null, limit: 1, offset: 0 });
    assert.ok(total <= 2, String(total));
    assert.ok((await ticks.runs(core)).length <= 12);
    assert.equal((await ticks.row(core)).executions, 144);
  });
});

test('the lag tells for how long the first tick has waited', async () => {
  assert.equal(await scheduleLag(rig.redis, 0), 0);
  await ticks.make({ cron: '0 * * * *' });
  assert.equal(await scheduleLag(rig.redis, 0), 0);
  rig.pass(HOUR_MS);
  assert.equal(await scheduleLag(rig.redis, 0), LEAD_MS);
});
