// lua/lib/stale.lua: work that is over does not wait for its time.
import assert from 'node:assert/strict';
import { after, beforeEach, describe, test } from 'node:test';
import { keys } from '../../../src/store/keys.ts';
import { encodeTargets, notesCore } from '../../../src/store/notes.ts';
import { ACCOUNT, SETTINGS, startRig, T0, type TaskSpec } from '../../helpers/rig.ts';

const LATE = T0 + 10 * 31_536_000_000;
const LIMIT = { name: 'limiter', lane: 'lane1', kind: 'w', cost: 1, valid_ms: 0 };

const rig = await startRig();
after(() => rig.redis.disconnect());
beforeEach(() => rig.reset());

/** Batches by their entries in `delayed`. */
async function delayed(): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const member of await rig.redis.zrange(keys.delayed(rig.partition), 0, '-1')) {
    const core = /\|(\w+),/.exec(member)?.[1] ?? '';
    counts[core] = (counts[core] ?? 0) + 1;
  }
  return counts;
}

/** Ticks when they ask for it, until a look has seen all; how many. */
async function looked(): Promise<number> {
  const marks = (): Promise<number> => rig.redis.hexists(keys.partition(rig.partition), 'stale');
  const scans = (): Promise<number> => rig.redis.hexists(keys.partition(rig.partition), 'scan');
  for (let ticks = 1; ; ticks++) {
    const { next_ms } = await rig.tick('h1');
    if ((await marks()) + (await scans()) === 0) return ticks;
    assert.ok(next_ms > rig.now_ms && next_ms <= rig.now_ms + 1_000, `${next_ms - rig.now_ms} ms to the next`);
    rig.pass(next_ms - rig.now_ms);
  }
}

function apart(tasks: number): TaskSpec[] {
  return Array.from({ length: tasks }, (_, i) => ({ due_ms: LATE + i, ...(i % 3 === 0 ? { limit: LIMIT } : {}) }));
}

/** A claim gives ranges of many tasks to their flows. */
async function dealt(): Promise<void> {
  for (let more = true; more; ) {
    const reply = await rig.claimed('h1', 100);
    assert.equal(reply.tasks.length, 0);
    more = reply.more;
  }
}

describe('what is delayed', () => {
  test('goes with a batch that was cancelled, a part at a time, and nothing else does', async () => {
    rig.checks = false;
    const [gone, stays] = [await rig.create({ tasks: apart(700) }), await rig.create({ tasks: apart(300) })];
    const { core: tray } = await rig.single([{ due_ms: LATE }]);
    await dealt();
    await rig.cancel(gone);
    assert.equal((await delayed())[gone], 700);
    const ticks = await looked();
    rig.checks = true;
    assert.ok(ticks >= 5, `${ticks} ticks`);
    assert.deepEqual(await delayed(), { [stays]: 300, [tray]: 1 });
    await rig.check();
    // Nothing is looked for where nothing ended.
    assert.equal((await rig.tick('h1')).next_ms, T0 + SETTINGS.keep_ms);
    await rig.tick('h1');
    assert.equal(await rig.redis.hexists(keys.partition(rig.partition), 'scan'), 0);
  });

  test('and with one that was deleted before a tick came', async () => {
    const core = await rig.create({ tasks: apart(20) });
    await rig.cancel(core);
    await rig.delete(core);
    await looked();
    assert.deepEqual(await delayed(), {});
  });

  test('goes when its batch expires, and what a round brings stays', async () => {
    const core = await rig.create({ tasks: apart(20), expiration_ms: 1_000 });
    rig.pass(1_000);
    assert.equal((await rig.tick('h1')).expired, 1);
    await rig.retryBatch(core);
    rig.checks = false;
    await dealt();
    rig.checks = true;
    assert.equal((await delayed())[core], 40);
    await looked();
    assert.deepEqual(await delayed(), { [core]: 20 });
    await rig.check();
  });

  test('goes with notifications whose batch was deleted, and with a range of many hosts', async () => {
    const notify = encodeTargets([{ event: 'on_finish', origin: 'webhookorg', min_interval_ms: 0 }]);
    const core = await rig.create({ tasks: 1, notify });
    await rig.settle('h1', await rig.claim('h1', 1), 'c');
    await rig.settle('h1', await rig.claim('h1', 1), 'r', { delay_ms: 1_800_000 });
    const many = await rig.create({ tasks: [{ origin: '*', due_ms: LATE }] });
    assert.deepEqual(await delayed(), { [notesCore(core)]: 1, [many]: 1 });
    await rig.delete(core);
    await looked();
    assert.deepEqual(await delayed(), { [many]: 1 });
    await rig.cancel(many);
    await looked();
    assert.deepEqual(await delayed(), {});
  });

  test('is looked through again no sooner than a second after the last mark, however often more is over', async () => {
    const looks = async (): Promise<number> => {
      const core = await rig.create({ tasks: [{ due_ms: LATE }] });
      await rig.cancel(core);
      await rig.tick('h1');
      return (await delayed())[core] ?? 0;
    };
    for (let k = 0; k < 10; k++) {
      assert.equal(await looks(), 1);
      rig.pass(50);
    }
    rig.pass(500);
    assert.equal(await looks(), 0);
    assert.equal(await looks(), 1);
  });

  test('goes with a task that was cancelled, and not while a neighbour in its range waits', async () => {
    const core = await rig.create({ tasks: [{ due_ms: LATE }, { due_ms: LATE }, { due_ms: LATE + 1 }] });
    for (const index of [0, 2]) assert.equal(await rig.cancelTask(core, index, ACCOUNT, '', LATE), 'cancelled');
    await looked();
    assert.deepEqual(await delayed(), { [core]: 1 });
    assert.equal(await rig.cancelTask(core, 1, ACCOUNT, '', LATE), 'cancelled');
    await looked();
    assert.deepEqual(await delayed(), {});
  });

  test('goes with a task that was cancelled while it waited for a retry', async () => {
    const { core } = await rig.single(1);
    const tasks = await rig.claim('h1', 10);
    await rig.settle('h1', tasks, 'r', { delay_ms: 3_600_000 });
    assert.deepEqual(await delayed(), { [core]: 1 });
    assert.equal(await rig.cancelTask(core, 0), 'cancelled');
    await looked();
    assert.deepEqual(await delayed(), {});
  });

  test('goes also where the clock was set back meanwhile', async () => {
    const core = await rig.create({ tasks: apart(400) });
    await dealt();
    await rig.cancel(core);
    rig.pass(-3_600_000);
    await rig.tick('h1');
    assert.equal((await delayed())[core], 200);
    rig.pass(-3_600_000);
    await rig.tick('h1');
    assert.deepEqual(await delayed(), {});
  });

  test('is looked through once more where more of it is over meanwhile', async () => {
    rig.checks = false;
    const [first, second] = [await rig.create({ tasks: apart(400) }), await rig.create({ tasks: apart(400) })];
    await dealt();
    await rig.cancel(first);
    rig.pass(1_000);
    await rig.tick('h1');
    await rig.cancel(second);
    while ((await rig.redis.hexists(keys.partition(rig.partition), 'scan')) > 0) {
      rig.pass(100);
      await rig.tick('h1');
    }
    await looked();
    rig.checks = true;
    assert.deepEqual(await delayed(), {});
  });
});

describe('the time of a batch that ends', () => {
  test('by its expiry is known to the tick that ends it, and by a cancel to who works there', async () => {
    const core = await rig.create({ tasks: [{ due_ms: LATE }], expiration_ms: 1_000 });
    rig.pass(1_000);
    const { expired, next_ms } = await rig.tick('h1');
    assert.deepEqual([expired, next_ms], [1, rig.now_ms + 1_000], 'what it left in the queues is looked for');
    rig.pass(1_000);
    assert.equal((await rig.tick('h1')).next_ms, T0 + 1_000 + SETTINGS.keep_ms);
    await rig.delete(core);

    const heard: string[] = [];
    const listener = rig.redis.duplicate();
    await listener.ssubscribe(keys.bell(rig.partition));
    const rang = new Promise<void>((resolve) => {
      listener.on('smessage', (_channel, at: string) => {
        heard.push(at);
        if (at === String(rig.now_ms + SETTINGS.keep_ms)) resolve();
      });
    });
    await rig.cancel(await rig.create({ tasks: 1 }));
    await rang;
    listener.disconnect();
  });
});
