// lua/notification/redeliver.lua, and the delivery log as the store reads it.
import assert from 'node:assert/strict';
import { after, beforeEach, test } from 'node:test';
import type { NotificationEvent } from '../../../src/schema/notifications.ts';
import { newOperation } from '../../../src/store/batches.ts';
import { keys } from '../../../src/store/keys.ts';
import { encodeTargets, notesCore } from '../../../src/store/notes.ts';
import { readLog, redeliver } from '../../../src/store/notifications.ts';
import type { Claimed } from '../../../src/store/partition.ts';
import { ACCOUNT, startRig } from '../../helpers/rig.ts';

const rig = await startRig();
after(() => rig.redis.disconnect());
beforeEach(async () => {
  rig.checks = true;
  await rig.reset();
});

const notify = (...events: NotificationEvent[]) =>
  encodeTargets(events.map((event, k) => ({ event, origin: `webhook${k}oo`.padEnd(10, 'o'), min_interval_ms: 0 })));
const ALL = { status: null, event: null, limit: 1000, offset: 0 } as const;

async function ended(tasks: number, ...events: NotificationEvent[]): Promise<string> {
  const core = await rig.create({ tasks, notify: notify(...events) });
  await rig.settle('h1', await rig.claim('h1', tasks), 'c');
  return core;
}

async function again(core: string, index: number, account = ACCOUNT, operation = newOperation()): Promise<string> {
  const outcome = await redeliver(rig.redis, account, core, index, operation);
  await rig.check();
  return outcome;
}

async function lines(core: string, filter: Partial<Parameters<typeof readLog>[2]> = {}): Promise<string[]> {
  const { rows } = await readLog(rig.redis, core, { ...ALL, ...filter });
  return rows.map(({ index, note, status, result }) => `${index} ${note.event} ${status}${result === null ? '' : ' told'}`);
}

/** Ends a try of each of these as its turn says. */
async function settleAs(tasks: readonly Claimed[], verdicts: string): Promise<void> {
  for (const [k, task] of tasks.entries()) await rig.settle('h1', [task], verdicts[k] as 'c' | 'f' | 'r', { delay_ms: 1_000 });
}

test('the same operation does it once', async () => {
  const core = await ended(1, 'on_finish');
  const operation = newOperation();
  for (let round = 0; round < 2; round++) {
    await settleAs(await rig.claim('h1', 1), 'c');
    assert.equal(await again(core, 0, ACCOUNT, operation), 'queued');
  }
  assert.deepEqual(await lines(core), ['0 on_finish delivered told']);
  assert.equal(await again(core, 0), 'queued');
  assert.deepEqual(await lines(core), ['0 on_finish pending']);
});

test('one that was delivered or given up begins anew, in the flow of its webhook', async () => {
  const core = await ended(1, 'on_finish', 'on_success', 'on_complete');
  await settleAs(await rig.claim('h1', 3), 'cfr');
  assert.deepEqual(await lines(core), ['2 on_complete pending told', '1 on_success failed told', '0 on_finish delivered told']);
  assert.deepEqual([await again(core, 0), await again(core, 1)], ['queued', 'queued']);
  assert.deepEqual(await lines(core), ['2 on_complete pending told', '1 on_success pending', '0 on_finish pending']);
  const claimed = await rig.claim('h1', 10);
  assert.deepEqual(
    claimed.map(({ flight, index, attempt, of }) => [flight.core, index, attempt, of?.core]),
    [0, 1].map((index) => [notesCore(core), index, 1, core]),
  );
  assert.deepEqual(
    claimed.map(({ flight }) => flight.name.split(',').at(-1)),
    ['n:acme:webhook0oo', 'n:acme:webhook1oo'],
  );
  await rig.settle('h1', claimed, 'c');
  assert.deepEqual(await lines(core, { status: 'delivered' }), ['1 on_success delivered told', '0 on_finish delivered told']);
  const notes = await rig.batch(notesCore(core));
  assert.deepEqual([notes.n, notes.c, notes.f], [3, 2, 0]);
});

test('one on its way stays as it is', async () => {
  const core = await ended(1, 'on_finish', 'on_success', 'on_complete');
  const claimed = await rig.claim('h1', 3);
  await settleAs(claimed.slice(1, 2), 'r');
  const before = await rig.dump();
  for (const index of [0, 1]) assert.equal(await again(core, index), 'waiting');
  assert.deepEqual(await rig.dump(), before);
  assert.deepEqual(await lines(core), ['2 on_complete delivering', '1 on_success pending told', '0 on_finish delivering']);
});

test('the range that it was first sent with may still be in flight', async () => {
  const core = await rig.create({ tasks: 3, notify: notify('on_progress') });
  await rig.settle('h1', await rig.claim('h1', 3), 'c');
  const claimed = await rig.claim('h1', 3);
  await rig.settle('h1', claimed.slice(1, 2), 'c');
  assert.equal(await again(core, 1), 'queued');
  const [second] = await rig.claim('h1', 3);
  assert.ok(second);
  await rig.settle('h1', claimed.slice(1, 2), 'f');
  assert.equal((await rig.batch(notesCore(core))).states, 'pPp');
  await rig.settle('h1', [...claimed.slice(0, 1), second, ...claimed.slice(2)], 'c');
  assert.equal((await rig.batch(notesCore(core))).c, 3);
});

test('what there is none of, or no longer, is missing', async () => {
  const core = await ended(1, 'on_finish');
  await settleAs(await rig.claim('h1', 1), 'c');
  assert.equal(await again(core, 1), 'missing');
  assert.equal(await again(core, 0, 'rival'), 'batch');
  assert.equal(await again(rig.newCore(), 0), 'batch');
  assert.equal(await again(await rig.create(), 0), 'missing');
  assert.equal(await again((await rig.single()).core, 0), 'batch');
  await rig.delete(core);
  assert.equal(await again(core, 0), 'batch');
});

test('a log of thousands is read newest first and filtered by event, and what left it is in no page', async () => {
  rig.checks = false;
  const core = await rig.create({ tasks: 4_000, hold: true, notify: notify('on_progress', 'on_finish') });
  for (let k = 0; k < 40; k++)
    await rig.settle(
      'h1',
      (await rig.claim('h1', 100)).filter(({ of }) => of === null),
      'c',
    );
  await rig.release(core);
  // As if its first pages had left.
  const left = 320;
  await rig.redis.setrange(keys.states(0, notesCore(core)), 0, 'x'.repeat(left));
  await rig.redis.hdel(keys.segment(0, notesCore(core), 0), ...Array.from({ length: left / 16 }, (_, page) => String(page)));
  const { total, rows } = await readLog(rig.redis, core, ALL);
  assert.ok(total > 3_000 && rows.length === 1_000);
  assert.ok(rows.every(({ index }, k) => k === 0 || index < (rows[k - 1]?.index ?? 0)));
  const progress = await readLog(rig.redis, core, { ...ALL, event: 'on_progress', offset: total - 10 });
  const finish = await readLog(rig.redis, core, { ...ALL, event: 'on_finish' });
  assert.equal(progress.total + finish.total, total);
  assert.deepEqual(
    progress.rows.map(({ index }) => index),
    Array.from({ length: progress.rows.length }, (_, k) => left + progress.rows.length - 1 - k),
  );
  assert.equal(await again(core, 5), 'missing');
});
