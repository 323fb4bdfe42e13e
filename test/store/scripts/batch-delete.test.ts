// lua/batch/delete.lua: a finished batch goes, with its companion.
import assert from 'node:assert/strict';
import { after, beforeEach, test } from 'node:test';
import { keys } from '../../../src/store/keys.ts';
import { encodeTargets, notesCore } from '../../../src/store/notes.ts';
import { listTasks } from '../../helpers/listing.ts';
import { ACCOUNT, SETTINGS, startRig } from '../../helpers/rig.ts';

const rig = await startRig();
after(() => rig.redis.disconnect());
beforeEach(async () => {
  rig.checks = true;
  await rig.reset();
});

const NOTIFY = encodeTargets((['on_finish', 'on_complete'] as const).map((event) => ({ event, origin: 'webhookorg', min_interval_ms: 0 })));

/** Names of all keys that belong to a batch or its companion. */
async function keysOf(core: string): Promise<string[]> {
  return [...(await rig.dump()).keys()].filter((name) => name.includes(core));
}

test('a finished batch is gone at once, also from its lists, and its memory with the next tick', async () => {
  const core = await rig.create({ tasks: 2, labels: ['aaaaaaaaaa'], task_keys: ['k1'] });
  const claimed = await rig.claim('h1', 2);
  await rig.settle('h1', claimed.slice(0, 1), 'c');
  await rig.settle('h1', claimed.slice(1), 'f');
  assert.deepEqual(await rig.delete(core), { kind: 'deleted', dropped: 0 });
  assert.equal(await rig.redis.exists(keys.accountBatches(0, ACCOUNT), keys.accountLabel(0, ACCOUNT, 'aaaaaaaaaa')), 0);
  assert.equal(await listTasks(rig.redis, ACCOUNT, core, { status: null, limit: 1, offset: 0 }), null);
  assert.equal((await rig.delete(core)).kind, 'missing');
  assert.equal((await rig.cancel(core)).kind, 'missing');
  assert.equal(await rig.release(core), null);
  assert.equal((await rig.add(core, 1)).kind, 'missing');
  assert.equal(await rig.cancelTask(core, 1), 'missing');
  assert.equal(await rig.retryTask(core, 1), 'missing');
  assert.equal((await rig.retryBatch(core)).kind, 'missing');
  assert.equal((await rig.tick('h1')).deleted, 1);
  assert.deepEqual(await keysOf(core), []);
});

test('one of several segments goes whole', async () => {
  rig.checks = false;
  const core = await rig.create({ tasks: 3_000 });
  await rig.cancel(core);
  await rig.delete(core);
  await rig.tick('h1');
  assert.deepEqual(await keysOf(core), []);
});

test('one that is not over stays, and so does that of another account', async () => {
  const live = await rig.create({ tasks: 1 });
  const running = await rig.create({ tasks: 1 });
  await rig.claim('h1', 2);
  await rig.cancel(running);
  const before = await rig.dump();
  assert.deepEqual(await rig.delete(live), { kind: 'state', status: 'processing' });
  assert.deepEqual(await rig.delete(running), { kind: 'state', status: 'cancelled' });
  assert.equal((await rig.delete(live, 'rival')).kind, 'missing');
  assert.deepEqual(await rig.dump(), before);
  assert.equal((await rig.delete((await rig.single()).core)).kind, 'missing');
});

test('what it left in the queues runs for nobody', async () => {
  const core = await rig.create({ tasks: [{}, { due_ms: rig.now_ms + 50_000 }] });
  await rig.settle('h1', await rig.claim('h1', 1), 'r', { delay_ms: 1_000 });
  await rig.cancel(core);
  await rig.delete(core);
  rig.pass(SETTINGS.keep_ms);
  await rig.tick('h1');
  await rig.tick('h1');
  assert.deepEqual(await rig.claim('h1', 10), []);
});

test('its companion goes at once; what was not delivered is told, and never sent', async () => {
  const core = await rig.create({ tasks: 1, notify: NOTIFY });
  await rig.settle('h1', await rig.claim('h1', 1), 'c');
  assert.deepEqual(await rig.delete(core), { kind: 'deleted', dropped: 2 });
  assert.equal(await rig.redis.exists(keys.batch(0, notesCore(core)), keys.states(0, notesCore(core))), 0);
  assert.deepEqual(await rig.claim('h1', 10), []);
  await rig.tick('h1');
  assert.deepEqual(await keysOf(core), []);
});

test('a notification that is under way then ends without a trace', async () => {
  const core = await rig.create({ tasks: 1, notify: NOTIFY });
  await rig.settle('h1', await rig.claim('h1', 1), 'c');
  const [one, two] = await rig.claim('h1', 2);
  assert.ok(one && two);
  await rig.settle('h1', [one], 'c');
  assert.deepEqual(await rig.delete(core), { kind: 'deleted', dropped: 1 });
  await rig.settle('h1', [two], 'r', { delay_ms: 30_000 });
  rig.pass(SETTINGS.silence_ms + 1);
  for (let ticks = 0; ticks < 12; ticks++) {
    rig.pass(2_500);
    await rig.tick('h1');
  }
  assert.deepEqual(await keysOf(core), []);
  assert.deepEqual(await rig.active('h1'), []);
});
