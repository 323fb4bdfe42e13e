// Notifications as scripts write them: which events, with what stats, when they are due, and what leaves the log.
import assert from 'node:assert/strict';
import { after, beforeEach, describe, test } from 'node:test';
import type { BatchStatus } from '../../src/store/batches.ts';
import { keys } from '../../src/store/keys.ts';
import { decodeNote, encodeTargets, type Note, notesCore } from '../../src/store/notes.ts';
import type { Claimed } from '../../src/store/partition.ts';
import { decodePage } from '../../src/store/records.ts';
import { ACCOUNT, SETTINGS, startRig, T0 } from '../helpers/rig.ts';

const rig = await startRig();
after(() => rig.redis.disconnect());
beforeEach(() => rig.reset());

const HOOK = 'webhookorg';
const EVENTS = ['on_progress', 'on_finish', 'on_success', 'on_death', 'on_complete'] as const;
const ALL = encodeTargets(EVENTS.map((event) => ({ event, origin: HOOK, min_interval_ms: 0 })));
const NOT_PROGRESS = encodeTargets(EVENTS.slice(1).map((event) => ({ event, origin: HOOK, min_interval_ms: 0 })));

/** The notifications of a batch that are in its log, oldest first. */
async function notesOf(core: string): Promise<Note[]> {
  const pages = await rig.redis.hgetallBuffer(keys.segment(0, notesCore(core), 0));
  const numbers = Object.keys(pages).filter((field) => /^\d+$/.test(field));
  return numbers
    .sort((a, b) => Number(a) - Number(b))
    .flatMap((field) => decodePage(pages[field] ?? Buffer.alloc(0)).map(({ payload }) => decodeNote(payload ?? Buffer.alloc(0))));
}

/** `<event> <status> <total>/<completed>/<failed>/<cancelled>` of each. */
async function told(core: string): Promise<string[]> {
  return (await notesOf(core)).map(lineOf);
}

function lineOf({ event, status, total, completed, failed, cancelled }: Note): string {
  return `${event} ${status} ${total}/${completed}/${failed}/${cancelled}`;
}

async function start(core: string, tasks: number): Promise<Claimed[]> {
  const claimed = (await rig.claim('h1', tasks)).filter(({ flight }) => flight.core === core);
  assert.equal(claimed.length, tasks);
  return claimed;
}

/** What a claim of notifications brings. */
async function claimNotes(budget = 100): Promise<Claimed[]> {
  return (await rig.claim('h1', budget)).filter(({ of }) => of !== null);
}

describe('what a batch tells of', () => {
  test('a progress for each task that ends, in order, and finish, success and complete at the end', async () => {
    const core = await rig.create({ tasks: 3, notify: ALL });
    assert.deepEqual(await told(core), []);
    await rig.settle('h1', await start(core, 3), 'c');
    assert.deepEqual(await told(core), [
      'on_progress processing 3/1/0/0',
      'on_progress processing 3/2/0/0',
      'on_progress completed 3/3/0/0',
      'on_finish completed 3/3/0/0',
      'on_success completed 3/3/0/0',
      'on_complete completed 3/3/0/0',
    ]);
    const notes = await notesOf(core);
    assert.deepEqual(
      notes.map(({ finished_ms }) => finished_ms),
      [null, null, T0, T0, T0, T0],
    );
    assert.ok(notes.every(({ round, at_ms }) => round === 1 && at_ms === T0));
  });

  test('the first task that fails for good, once, with its result', async () => {
    const core = await rig.create({ tasks: 3, notify: NOT_PROGRESS });
    const [one, two, three] = await start(core, 3);
    assert.ok(one && two && three);
    const failure = { verdict: 'f' as const, delay_ms: 0, result: '[1,2,0,500,7,"http_status","The target answered 500."]' };
    await rig.settleAll('h1', [
      { flight: one.flight, index: 0, verdict: 'c', delay_ms: 0, result: '[1,1,0,200,5]' },
      { flight: two.flight, index: 1, ...failure },
    ]);
    await rig.settleAll('h1', [{ flight: three.flight, index: 2, ...failure }]);
    assert.deepEqual(await told(core), ['on_death processing 3/1/1/0', 'on_finish failed 3/1/2/0', 'on_complete failed 3/1/2/0']);
    const [death] = await notesOf(core);
    assert.deepEqual(death?.failure, { index: 1, result: failure.result });
  });

  test('tasks that are added, cancelled, retried: progress of what ends or comes', async () => {
    const core = await rig.create({ tasks: 2, notify: ALL });
    await rig.add(core, 300);
    await rig.cancelTask(core, 5);
    await rig.cancelTask(core, 5);
    const [one] = await rig.claim('h1', 1);
    assert.ok(one);
    await rig.settle('h1', [one], 'r', { delay_ms: 10 });
    assert.deepEqual(await told(core), ['on_progress pending 302/0/0/0', 'on_progress pending 302/0/0/1']);
  });

  test('a cancel: one progress for all, the end when the last running task has finished', async () => {
    const core = await rig.create({ tasks: 5, notify: ALL });
    const running = await rig.claim('h1', 2);
    await rig.settle('h1', running.slice(2), 'b');
    await rig.cancel(core);
    assert.equal((await told(core)).length, 1);
    for (const task of running.slice(0, 2)) await rig.settle('h1', [task], 'c');
    const all = await told(core);
    assert.deepEqual(all.slice(-2), [`on_finish cancelled 5/2/0/3`, `on_complete cancelled 5/2/0/3`]);
    assert.ok(!all.some((line) => line.startsWith('on_success')));
    await rig.cancel(core);
    assert.equal((await told(core)).length, all.length);
  });

  test('a cancel where nothing runs: the end at once', async () => {
    const core = await rig.create({ tasks: 2, notify: ALL });
    await rig.cancel(core);
    const stats = 'cancelled 2/0/0/2';
    assert.deepEqual(await told(core), [`on_progress ${stats}`, `on_finish ${stats}`, `on_complete ${stats}`]);
  });

  test('no success where a task was cancelled and the others completed', async () => {
    const core = await rig.create({ tasks: 2, notify: ALL });
    await rig.cancelTask(core, 1);
    await rig.settle('h1', await start(core, 1), 'c');
    assert.deepEqual((await told(core)).slice(1), [
      'on_progress completed 2/1/0/1',
      'on_finish completed 2/1/0/1',
      'on_complete completed 2/1/0/1',
    ]);
  });

  test('an expiry: one progress, a death that names a task that never started, the end', async () => {
    const core = await rig.create({ tasks: 3, notify: ALL, expiration_ms: 1000 });
    rig.pass(1000);
    await rig.tick('h1');
    const stats = 'expired 3/0/3/0';
    assert.deepEqual(await told(core), [`on_progress ${stats}`, `on_death ${stats}`, `on_finish ${stats}`, `on_complete ${stats}`]);
    const death = (await notesOf(core))[1]?.failure;
    assert.equal(death?.index, 0);
    assert.deepEqual(JSON.parse(death.result).slice(5, 6), ['batch_expired']);
  });

  test('a task lost with its process too often is a failure like others', async () => {
    const core = await rig.create({ tasks: 1, notify: NOT_PROGRESS });
    await start(core, 1);
    for (let k = 0; k < 5; k++) {
      rig.pass(2500);
      await rig.tick('h2', { recoveries_max: 1 });
    }
    assert.deepEqual(await told(core), ['on_death failed 1/0/1/0', 'on_finish failed 1/0/1/0', 'on_complete failed 1/0/1/0']);
    assert.match((await notesOf(core))[0]?.failure?.result ?? '', /worker_lost/);
  });

  test('a held batch ends with its release, and that is no progress', async () => {
    const core = await rig.create({ tasks: 1, notify: ALL, hold: true });
    await rig.settle('h1', await start(core, 1), 'c');
    assert.deepEqual(await told(core), ['on_progress processing 1/1/0/0']);
    await rig.release(core);
    assert.deepEqual((await told(core)).slice(1), [
      'on_finish completed 1/1/0/0',
      'on_success completed 1/1/0/0',
      'on_complete completed 1/1/0/0',
    ]);
  });

  test('nothing where nothing is wanted, and no companion', async () => {
    const core = await rig.create({ tasks: 1 });
    await rig.settle('h1', await start(core, 1), 'c');
    assert.equal(await rig.redis.exists(keys.batch(0, notesCore(core))), 0);
  });
});

describe('notifications as tasks', () => {
  test('are claimed with their batch, sent again in their own class, and count apart from it', async () => {
    const core = await rig.create({ tasks: 1, notify: NOT_PROGRESS });
    await rig.settle('h1', await start(core, 1), 'c');
    const notes = await claimNotes();
    assert.deepEqual(
      notes.map(({ of, single, account_id, attempt }) => [of, single, account_id, attempt]),
      Array(3).fill([{ core, doc: '{}', created_ms: T0 }, false, ACCOUNT, 1]),
    );
    await rig.settle('h1', notes.slice(0, 2), 'c');
    await rig.settle('h1', notes.slice(2), 'r', { delay_ms: 30_000 });
    rig.pass(30_000);
    await rig.tick('h1');
    const [again] = await claimNotes();
    assert.equal(again?.attempt, 2);
    assert.ok(again.flight.name.endsWith(`n:${ACCOUNT}:${HOOK}`));
    await rig.settle('h1', [again], 'f');
    const { n, c, f } = await rig.batch(notesCore(core));
    assert.deepEqual([n, c, f], [3, 2, 1]);
    assert.equal((await rig.batch(core)).status, 'completed');
  });

  test('take no more places than they may have, and say that more wait', async () => {
    const core = await rig.create({ tasks: 100, notify: ALL });
    await rig.settle('h1', await start(core, 100), 'c');
    await rig.create({ tasks: 50 });
    const reply = await rig.claimed('h1', 128, { notes: 16 });
    const notes = reply.tasks.filter(({ of }) => of !== null).length;
    assert.ok(notes >= 16 && notes <= 31, `${notes} notifications`);
    assert.equal(reply.tasks.length - notes, 50);
    assert.deepEqual([reply.more, reply.more_notes], [false, true]);
    const none = await rig.claimed('h1', 128, { notes: 0 });
    assert.deepEqual([none.tasks.length, none.more, none.more_notes], [0, false, true]);
  });

  test('of a claim that is repeated come again with their batch', async () => {
    const core = await rig.create({ tasks: 1, notify: ALL });
    await rig.settle('h1', await start(core, 1), 'c');
    const first = await rig.claimed('h1', 50, { call_no: 900 });
    const again = await rig.claimed('h1', 50, { call_no: 900 });
    assert.deepEqual(again.tasks, first.tasks);
    assert.equal(first.tasks.length, 4);
  });
});

describe('progress within min_interval', () => {
  const merged = (ms: number): string => encodeTargets([{ event: 'on_progress', origin: HOOK, min_interval_ms: ms }]);

  test('merges, and the last one is always sent', async () => {
    const core = await rig.create({ tasks: 40, notify: merged(1000) });
    const tasks = await start(core, 40);
    await rig.settle('h1', tasks.slice(0, 3), 'c');
    assert.deepEqual(await told(core), ['on_progress processing 40/3/0/0']);
    assert.equal((await claimNotes(1)).length, 1);
    rig.pass(400);
    await rig.settle('h1', tasks.slice(3, 10), 'c');
    await rig.settle('h1', tasks.slice(10, 20), 'f');
    assert.deepEqual((await told(core)).slice(1), ['on_progress processing 40/10/10/0']);
    assert.equal((await claimNotes(1)).length, 0, 'it waits for the interval to pass');
    await rig.settle('h1', tasks.slice(20), 'c');
    assert.deepEqual((await told(core)).slice(1), ['on_progress failed 40/30/10/0']);
    rig.pass(600);
    await rig.tick('h1');
    const [last] = await claimNotes(1);
    assert.equal(last?.payload && lineOf(decodeNote(last.payload)), 'on_progress failed 40/30/10/0');
  });

  test('beyond 10,000 that are not delivered progress merges in any case; delivered ones leave the log', async () => {
    rig.checks = false;
    const core = await rig.create({ tasks: 15_000, hold: true, notify: merged(0) });
    for (let k = 0; k < 30; k++) {
      const tasks = (await rig.claim('h1', 500, { notes: 0 })).slice(0, 500);
      for (let at = 0; at < tasks.length; at += 250) await rig.settle('h1', tasks.slice(at, at + 250), 'c');
    }
    await rig.check();
    const before = await rig.batch(notesCore(core));
    assert.equal(before.n, 10_000);
    const notes = await notesOf(core);
    const last = (await rig.batch(core)).c;
    assert.equal(notes.at(-1)?.completed, last, 'the last one is the newest');
    for (let left = 10_000; left > 0; ) {
      const some = await claimNotes(500);
      await rig.settle('h1', some, 'c');
      left -= some.length;
    }
    await rig.add(core, 3000);
    const rest = (await rig.claim('h1', 3000, { notes: 0 })).filter(({ of }) => of === null);
    for (let at = 0; at < rest.length; at += 250) await rig.settle('h1', rest.slice(at, at + 250), 'c');
    const now = await rig.batch(notesCore(core));
    rig.checks = true;
    await rig.check();
    assert.ok(now.x > 0 && now.n - now.x <= 10_000 + 300, `${now.n - now.x} are kept`);
  });
});

test('a batch is kept until its notifications are delivered, and they go with it', async () => {
  const core = await rig.create({ tasks: 1, notify: NOT_PROGRESS });
  await rig.settle('h1', await start(core, 1), 'c');
  const notes = await claimNotes();
  rig.pass(SETTINGS.keep_ms);
  await rig.tick('h1');
  assert.equal((await rig.batch(core)).status, 'completed' satisfies BatchStatus);
  await rig.settle('h1', notes, 'f');
  rig.pass(60_000);
  await rig.tick('h1');
  const left = [...(await rig.dump()).keys()].filter((name) => name.startsWith('b:'));
  assert.deepEqual(left, []);
});
