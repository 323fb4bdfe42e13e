// lua/partition/claim.lua: no task twice, none lost, nobody starved.
import assert from 'node:assert/strict';
import { after, afterEach, beforeEach, describe, test } from 'node:test';
import { keys } from '../../../src/store/keys.ts';
import type { Claimed } from '../../../src/store/partition.ts';
import { places, startRig, T0 } from '../../helpers/rig.ts';

const rig = await startRig();
after(() => rig.redis.disconnect());
beforeEach(() => rig.reset());

/** A claim rounds up to whole pages in each class. */
const OVER_MAX = 64;

describe('partition/claim', () => {
  test('an empty partition has nothing, and says so', async () => {
    assert.deepEqual(await rig.claimed('h1', 10), {
      now_ms: T0,
      more: false,
      more_notes: false,
      first_due_ms: 0,
      parked: [],
      tasks: [],
      messages: false,
      suspects: 0,
    });
    assert.equal(await rig.redis.exists(keys.active(0, 'h1')), 0);
  });

  test('tasks come as given, once each, with their lease', async () => {
    const core = await rig.create({ tasks: 20 });
    const tasks = await rig.claim('h1', 20);
    assert.deepEqual(
      places(tasks),
      Array.from({ length: 20 }, (_, i) => `${core},${i}`),
    );
    assert.deepEqual(
      tasks.map(({ payload }) => payload?.toString()),
      Array.from({ length: 20 }, (_, i) => JSON.stringify(`task ${i}`)),
    );
    const leases = await rig.redis.zrange(keys.active(0, 'h1'), 0, '-1', 'WITHSCORES');
    assert.equal(leases[1], String(T0 + 30_000 + 5_000));
    assert.equal((await rig.batch(core)).status, 'processing');
  });

  test('what an origin has room for is shared by the accounts that call it, and what is left is parked at once', async () => {
    await rig.create({ tasks: 500 });
    await rig.create({ tasks: 3, account: 'rival' });
    const first = await rig.claimed('h1', 128, { rooms: [['o1', 40]] });
    assert.deepEqual([first.parked, first.more], [['o1'], false], 'parked');
    assert.equal(first.tasks.filter(({ account_id }) => account_id === 'rival').length, 3, 'tasks of the one who has few');
    assert.ok(first.tasks.length <= 40 + OVER_MAX, `${first.tasks.length} for 40 places`);
    assert.equal((await rig.claim('h1', 128, { rooms: [['o1', 40]] })).length, 0, 'what is parked waits to be let go');
    const second = await rig.claimed('h1', 128, { rooms: [['o1', 40]], unpark: ['o1'] });
    assert.ok(second.tasks.length >= 40, `${second.tasks.length} for 40 places`);
  });

  test('that there is more is said where there is, and not where the budget is spent and nothing is left', async () => {
    await rig.create({ tasks: 64 });
    assert.equal((await rig.claimed('h1', 48)).more, true);
    assert.equal((await rig.claimed('h1', 16)).more, false);
    await rig.create({ tasks: 64 });
    const parked = await rig.claimed('h1', 48, { rooms: [['o1', 48]] });
    assert.deepEqual([parked.tasks.length, parked.more, parked.parked], [48, false, ['o1']], 'what is left is parked');
  });

  test('an account behind more than a call looks at, all of them parked, is no reason to wait', async () => {
    for (let k = 0; k < 60; k++) await rig.create({ tasks: [{ origin: 'full' }], account: `acct${k}` });
    const last = await rig.create({ tasks: 1, account: 'last' });
    const first = await rig.claimed('h1', 128, { rooms: [['full', 0]] });
    assert.deepEqual([first.tasks.length, first.parked, first.more], [0, ['full'], true]);
    const second = await rig.claimed('h1', 128, { rooms: [['full', 0]] });
    assert.deepEqual([places(second.tasks), second.more], [[`${last},0`], false]);
  });

  for (const budget of [1, 2, 7, 16, 100, 128]) {
    test(`a budget of ${budget} is kept but for the rounding to pages`, async () => {
      for (let k = 0; k < 5; k++) await rig.create({ tasks: 100, account: `acct${k}` });
      const tasks = await rig.claim('h1', budget);
      assert.ok(tasks.length > 0 && tasks.length <= budget + OVER_MAX, `${tasks.length} of ${budget}`);
    });
  }

  test('a repeated call brings what the first one brought and takes nothing', async () => {
    await rig.create({ tasks: 100 });
    await rig.create({ tasks: 30, account: 'rival' });
    const first = await rig.claim('h1', 60, { call_no: 7 });
    const before = await rig.dump();
    const again = await rig.claim('h1', 60, { call_no: 7 });
    assert.deepEqual(places(again).sort(), places(first).sort());
    assert.deepEqual(new Set(again.map(({ payload }) => payload?.toString())), new Set(first.map(({ payload }) => payload?.toString())));
    assert.deepEqual(await rig.dump(), before);
  });

  test('a repeated call leaves out what was settled or taken away meanwhile', async () => {
    const core = await rig.create({ tasks: 40 });
    const first = await rig.claim('h1', 40, { call_no: 7 });
    await rig.settle('h1', first.slice(3, 9), 'c');
    const again = await rig.claim('h1', 40, { call_no: 7 });
    assert.deepEqual(places(again), places([...first.slice(0, 3), ...first.slice(9)]));
    await rig.cancel(core);
    assert.equal((await rig.claim('h1', 40, { call_no: 7 })).length, again.length);
  });

  test('a repeated call of retries and of singles brings them again', async () => {
    await rig.create({ tasks: 5 });
    await rig.settle('h1', await rig.claim('h1', 5), 'r');
    await rig.single(3);
    const first = await rig.claim('h1', 50, { call_no: 90 });
    assert.equal(first.length, 8);
    const again = await rig.claim('h1', 50, { call_no: 90 });
    assert.deepEqual(places(again).sort(), places(first).sort());
    assert.deepEqual(again.map(({ attempt }) => attempt).sort(), first.map(({ attempt }) => attempt).sort());
  });

  test('20 clients at once: no task twice, none lost', async () => {
    for (let k = 0; k < 10; k++) await rig.create({ tasks: 300, account: `acct${k % 3}` });
    const clients = Array.from({ length: 20 }, () => rig.redis.duplicate());
    rig.checks = false;
    const seen = new Map<string, string>();
    const work = async (k: number): Promise<void> => {
      for (let call_no = 1; call_no <= 40; call_no++) {
        const tasks = await rig.claim(`h${k}`, 30, { call_no });
        for (const place of places(tasks)) {
          assert.equal(seen.get(place), undefined, place);
          seen.set(place, `h${k}`);
        }
      }
    };
    await Promise.all(clients.map((_, k) => work(k)));
    for (const client of clients) client.disconnect();
    rig.checks = true;
    await rig.check();
    assert.equal(seen.size, 3000);
  });

  test('cancelled tasks inside a range are stepped over', async () => {
    const core = await rig.create({ tasks: 20 });
    for (const index of [0, 5, 6, 15, 16, 19]) await rig.cancelTask(core, index);
    const tasks = await rig.claim('h1', 20);
    assert.deepEqual(
      tasks.map(({ index }) => index),
      [1, 2, 3, 4, 7, 8, 9, 10, 11, 12, 13, 14, 17, 18],
    );
    for (const task of tasks) assert.equal(task.payload?.toString(), JSON.stringify(`task ${task.index}`));
  });

  test('a range of which every task was cancelled does not hide what is behind it', async () => {
    const core = await rig.create({ tasks: 3 });
    for (const index of [0, 1, 2]) await rig.cancelTask(core, index);
    const next = await rig.create({ tasks: 1 });
    assert.deepEqual(places(await rig.claim('h1', 5)), [`${next},0`]);
  });

  test('hundreds of dead entries are dropped over some calls, and what is alive comes', async () => {
    rig.checks = false;
    const dead: string[] = [];
    for (let k = 0; k < 400; k++) dead.push(await rig.create({ tasks: 2 }));
    for (const core of dead) await rig.cancel(core);
    const alive = await rig.create({ tasks: 1 });
    rig.checks = true;
    let found: Claimed[] = [];
    for (let calls = 0; found.length === 0; calls++) {
      assert.ok(calls < 50);
      const reply = await rig.claimed('h1', 100);
      found = reply.tasks;
      assert.ok(reply.more || found.length > 0, 'more is said while more is there');
    }
    assert.deepEqual(places(found), [`${alive},0`]);
  });

  test('it says that more is there until nothing is', async () => {
    for (let k = 0; k < 120; k++) await rig.create({ tasks: 1, account: `acct${k}` });
    let claimed = 0;
    for (let calls = 0; calls < 20; calls++) {
      const { more, tasks } = await rig.claimed('h1', 128);
      claimed += tasks.length;
      if (!more) break;
    }
    assert.equal(claimed, 120);
  });
});

describe('fairness of claims', () => {
  // Many calls, or many tasks: what there is in the end is checked.
  beforeEach(() => {
    rig.checks = false;
  });
  afterEach(async () => {
    rig.checks = true;
    await rig.check();
  });

  test('100,000 tasks of one account in 1,000 batches do not delay the one task of another', async () => {
    for (let k = 0; k < 1000; k++) await rig.create({ tasks: 100, account: 'big' });
    const small = await rig.create({ tasks: 1, account: 'small' });
    const first = [...(await rig.claim('h1', 128)), ...(await rig.claim('h1', 128))];
    assert.ok(places(first).includes(`${small},0`));
  });

  test('accounts share a claim evenly, whatever they have', async () => {
    for (let k = 0; k < 4; k++) await rig.create({ tasks: 1000 * 4 ** k, account: `acct${k}` });
    const counts = new Map<string, number>();
    for (let calls = 0; calls < 8; calls++) {
      for (const { account_id } of await rig.claim('h1', 128)) counts.set(account_id, (counts.get(account_id) ?? 0) + 1);
    }
    const sizes = [...counts.values()];
    assert.ok(Math.min(...sizes) * 1.5 >= Math.max(...sizes), `shares ${sizes}`);
  });

  test('origins of an account share its turns evenly', async () => {
    await rig.create({ tasks: Array.from({ length: 2000 }, (_, i) => ({ origin: i < 1900 ? 'slow' : 'other' })) });
    const tasks = [...(await rig.claim('h1', 128)), ...(await rig.claim('h1', 128))];
    const other = tasks.filter(({ flight }) => flight.name.endsWith('other')).length;
    assert.ok(other >= 64, `${other} of ${tasks.length}`);
  });

  test('batches of one flow take turns', async () => {
    const cores = [];
    for (let k = 0; k < 10; k++) cores.push(await rig.create({ tasks: 500 }));
    const seen = new Set<string>();
    for (let calls = 0; calls < 10; calls++) for (const { flight } of await rig.claim('h1', 128)) seen.add(flight.core);
    assert.equal(seen.size, 10);
  });

  test('500 accounts: each has its turn within a few calls', async () => {
    for (let k = 0; k < 500; k++) await rig.create({ tasks: 100, account: `acct${k}` });
    const seen = new Set<string>();
    for (let calls = 0; calls < 80; calls++) for (const { account_id } of await rig.claim('h1', 128)) seen.add(account_id);
    assert.equal(seen.size, 500);
  });

  test('500 origins of one account: each has its turn within a few calls', async () => {
    await rig.create({ tasks: Array.from({ length: 5000 }, (_, i) => ({ origin: `o${i % 500}` })) });
    const seen = new Set<string>();
    for (let calls = 0; calls < 150; calls++)
      for (const { flight } of await rig.claim('h1', 128)) seen.add(flight.name.split(':')[2] ?? '');
    assert.equal(seen.size, 500);
  });

  test('fresh work and retries share by 6 to 1 while both wait, and either takes all when alone', async () => {
    await rig.create({ tasks: 3000 });
    const waiting: Claimed[] = [];
    while (waiting.length < 1000) waiting.push(...(await rig.claim('h1', 128)));
    await rig.settle('h1', waiting, 'r');
    await rig.create({ tasks: 3000 });
    const counts = { f: 0, r: 0 };
    for (let calls = 0; calls < 16; calls++) {
      for (const { attempt } of await rig.claim('h1', 64)) counts[attempt > 1 ? 'r' : 'f'] += 1;
    }
    const share = counts.f / counts.r;
    assert.ok(share > 2 && share < 9, `fresh ${counts.f}, retries ${counts.r}`);
  });

  test('with a budget of one, retries have their turn among eight calls', async () => {
    await rig.create({ tasks: 5 });
    await rig.settle('h1', await rig.claim('h1', 5), 'r');
    await rig.create({ tasks: 1000 });
    let retries = 0;
    for (let calls = 0; calls < 8; calls++) retries += (await rig.claim('h1', 1)).filter(({ attempt }) => attempt > 1).length;
    assert.ok(retries > 0);
  });

  test('a task behind a batch of 90 origins waits no longer than others of its account', async () => {
    await rig.create({ tasks: Array.from({ length: 3000 }, (_, i) => ({ origin: `o${i % 90}` })) });
    const plain = await rig.create({ tasks: [{ origin: 'other' }] });
    const first = [...(await rig.claim('h1', 128)), ...(await rig.claim('h1', 128))];
    assert.ok(places(first).includes(`${plain},0`));
  });
});
