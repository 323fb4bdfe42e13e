// src/delivery/reconciler.ts: whatever is taken from a partition, or changed in it, is found and put back; a healthy one is let be.
import assert from 'node:assert/strict';
import { after, beforeEach, describe, test } from 'node:test';
import { newCore } from '../../src/base/id.ts';
import { keys } from '../../src/store/keys.ts';
import { encodeTargets, notesCore } from '../../src/store/notes.ts';
import { verify } from '../../src/store/reconcile.ts';
import { checkPartition } from '../helpers/check-partition.ts';
import { PASSES, reconciled, watched } from '../helpers/reconciled.ts';
import { until } from '../helpers/redis.ts';
import { ACCOUNT, SETTINGS, startRig, T0 } from '../helpers/rig.ts';
import { build, type Scene } from '../store/half-moved-scene.ts';

const DAY_MS = 86_400_000;

const rig = await startRig();
after(() => rig.redis.disconnect());
beforeEach(() => rig.reset());

/** A partition with something of everything in it; the rig checks nothing until the end. */
async function scene(): Promise<Scene> {
  const built = await build(rig);
  rig.checks = false;
  return built;
}

function batchKey(core: string): string {
  return keys.batch(0, core);
}

test('a healthy partition stays as it is, to the byte', async () => {
  await scene();
  const before = await rig.dump();
  assert.deepEqual(await reconciled(rig), {});
  assert.deepEqual(await rig.dump(), before);
});

test('all is looked through by the thread that is chosen, as long as it is', async () => {
  const core = await rig.create({ tasks: 3 });
  await rig.redis.hset(batchKey(core), 'c', 2);
  let chosen = false;
  let asked = 0;
  const { reconciler, repaired } = watched(rig, () => {
    asked += 1;
    return chosen;
  });
  await reconciler.start();
  await until(() => asked > 3, 5_000, 'a few passes of others');
  assert.deepEqual(repaired, {});
  chosen = true;
  await until(() => repaired['counters'] === 1, 5_000, 'a pass');
  await reconciler.stop();
});

test('a batch that ended long ago has its turn', async () => {
  const core = await rig.create({ core: newCore(0, 1_600_000_000_000) });
  await rig.settle('h1', await rig.claim('h1', 1), 'c');
  const { reconciler, repaired } = watched(rig);
  await reconciler.pass();
  await rig.redis.zrem(keys.deadlines(0), core);
  for (let k = 0; k < 16; k++) await reconciler.pass();
  assert.deepEqual(repaired, { places: 1 });
  await rig.check();
});

/** What was taken or changed, and what must be found; then everything is as it must be, whatever it was. */
const DAMAGE: Record<string, { damage: (built: Scene) => Promise<unknown>; found: string[] }> = {
  'counters of a batch at work': {
    damage: ({ running }) => rig.redis.hset(batchKey(running), 'c', 900, 'r', 0, 'f', 3),
    found: ['counters'],
  },
  'total of a batch': { damage: ({ running }) => rig.redis.hset(batchKey(running), 'n', 7), found: ['counters'] },
  'counters of a tray': { damage: ({ tray }) => rig.redis.hset(batchKey(tray), 'x', 1), found: ['counters'] },
  'a field that is gone': { damage: ({ running }) => rig.redis.hdel(batchKey(running), 'f'), found: ['counters'] },
  'counters of a companion': {
    damage: ({ running }) => rig.redis.hincrby(batchKey(notesCore(running)), 'c', 1),
    found: ['counters'],
  },
  'the expiry of a batch': { damage: ({ running }) => rig.redis.zrem(keys.deadlines(0), running), found: ['places'] },
  'an expiry at another time': { damage: ({ held }) => rig.redis.zadd(keys.deadlines(0), T0 + 100 * DAY_MS, held), found: ['places'] },
  'the end of retention': { damage: ({ failed }) => rig.redis.zrem(keys.deadlines(0), failed), found: ['places'] },
  'all lists of an account': {
    damage: async ({ running }) => {
      const { status } = (await checkPartition(rig.redis, 0)).get(running) ?? assert.fail();
      await rig.redis.zrem(keys.accountBatches(0, ACCOUNT), running);
      await rig.redis.zrem(keys.accountBatches(0, ACCOUNT, status), running);
      await rig.redis.zadd(keys.accountBatches(0, ACCOUNT, 'completed'), T0, running);
    },
    found: ['places'],
  },
  'everything that is ready': {
    damage: async () => {
      const names = [...(await rig.dump()).keys()].filter((name) => /^(f|ready|parked):/.test(name) || name === 'parked');
      await rig.redis.del(...names.map((name) => keys.partition(0).slice(0, -1) + name));
      await rig.redis.hdel(keys.partition(0), 'ready:f', 'ready:r', 'ready:n');
    },
    found: ['queue'],
  },
  'everything that is delayed': { damage: () => rig.redis.del(keys.delayed(0)), found: ['queue'] },
  'what limiters have, and what they granted': {
    damage: () => rig.redis.del(keys.away(0), keys.awaySince(0), keys.granted(0)),
    found: ['queue'],
  },
  'everything that is in flight': {
    damage: () => rig.redis.del(keys.active(0, 'h1'), keys.active(0, 'h2'), keys.active(0, 'silent'), keys.holders(0)),
    found: ['flight'],
  },
  'the rings': {
    damage: async () => {
      const names = [...(await rig.dump()).keys()].filter((name) => /^ready:/.test(name) || name === 'parked');
      await rig.redis.del(...names.map((name) => keys.partition(0).slice(0, -1) + name));
    },
    found: ['ring'],
  },
  'who holds what is in flight': { damage: () => rig.redis.del(keys.holders(0)), found: ['holder'] },
  'which destinations have messages': { damage: () => rig.redis.del(keys.outbox(0)), found: ['outbox'] },
  'when lanes were asked': { damage: () => rig.redis.del(keys.awaySince(0)), found: ['away'] },
};

describe('found and put back', () => {
  for (const [what, { damage, found }] of Object.entries(DAMAGE)) {
    test(what, async () => {
      const built = await scene();
      await damage(built);
      const repaired = await reconciled(rig);
      assert.deepEqual(Object.keys(repaired), found);
      await checkPartition(rig.redis, 0);
      assert.deepEqual(await reconciled(rig), {}, 'once');
    });
  }
});

describe('a batch whose end was missed', () => {
  const notify = encodeTargets([{ event: 'on_finish', origin: 'webhookorg', min_interval_ms: 0 }]);

  test('ends, and tells of it once', async () => {
    const core = await rig.create({ tasks: 3, notify });
    const tasks = await rig.claim('h1', 3);
    rig.checks = false;
    await rig.settle('h1', tasks, 'c');
    // As if the last settlement had not ended it.
    await rig.redis.hset(batchKey(core), 's', 'processing');
    await rig.redis.hdel(batchKey(core), 'z');
    await rig.redis.del(batchKey(notesCore(core)), `${batchKey(notesCore(core))}:s`, `${batchKey(notesCore(core))}:0`);
    const flows = [...(await rig.dump()).keys()].filter((name) => /^(f|ready):/.test(name));
    await rig.redis.del(...flows.map((name) => keys.partition(0).slice(0, -1) + name));
    await rig.redis.hdel(keys.partition(0), 'ready:n');
    await rig.redis.zadd(keys.accountBatches(0, ACCOUNT, 'processing'), T0, core);
    await rig.redis.zrem(keys.accountBatches(0, ACCOUNT, 'completed'), core);
    assert.deepEqual(await reconciled(rig), { end: 1 });
    rig.checks = true;
    assert.equal((await rig.batch(core)).status, 'completed');
    const [note, ...more] = await rig.claim('h1', 5);
    assert.deepEqual([note?.of?.core, more.length], [core, 0]);
  });
});

describe('forgotten tasks', () => {
  test('go on with their attempts, at the time that they were made for', async () => {
    const head = '{"target":"https://a.example/x","timeout":7,"execute_after":"2030-01-01T00:00:00Z"}';
    const core = await rig.create({ tasks: [{}, { due_ms: Date.parse('2030-01-01T00:00:00Z'), head }], expiration_ms: 2000 * DAY_MS });
    await rig.settle('h1', await rig.claim('h1', 2), 'r', { delay_ms: 60_000, result: '[1,2,500,5]' });
    rig.checks = false;
    await rig.redis.del(keys.delayed(0));
    assert.deepEqual(await reconciled(rig), { queue: 2 });
    rig.checks = true;
    const [task, ...more] = await rig.claim('h1', 5);
    assert.deepEqual([task?.index, task?.attempt, more.length], [0, 3, 0]);
    const [due] = await rig.redis.zrange(keys.delayed(0), 0, '1');
    assert.match(due ?? '', new RegExp(`^f:${ACCOUNT}:\\w{10}\\|${core},1,1,0,0,7,${Date.parse('2030-01-01T00:00:00Z')}$`));
  });

  test('are more than one call queues again', async () => {
    const core = await rig.create({ tasks: 2300 });
    rig.checks = false;
    await rig.redis.del(...(await rig.redis.keys('*:f:*')), ...(await rig.redis.keys('*ready*')));
    await rig.redis.hdel(keys.partition(0), 'ready:f');
    assert.deepEqual(await reconciled(rig), { queue: 2300 });
    rig.checks = true;
    assert.equal((await rig.claim('h1', 2300)).filter(({ flight }) => flight.core === core).length, 2300);
  });

  test('of a batch in which something happens are left until it rests', async () => {
    const core = await rig.create({ tasks: 40 });
    rig.checks = false;
    await rig.redis.del(keys.flow(0, `f:${ACCOUNT}:o1`), ...(await rig.redis.keys('*ready*')));
    await rig.redis.hdel(keys.partition(0), 'ready:f');
    const { reconciler, repaired } = watched(rig);
    for (let k = 0; k < PASSES; k++) {
      await reconciler.pass();
      await rig.cancelTask(core, k);
    }
    assert.deepEqual(repaired, {});
    for (let k = 0; k < PASSES; k++) await reconciler.pass();
    assert.deepEqual(repaired, { queue: 40 - PASSES });
  });

  test('that ran when their batch was cancelled end with it', async () => {
    const core = await rig.create({ tasks: 20 });
    await rig.claim('h1', 5);
    await rig.cancel(core);
    rig.checks = false;
    await rig.redis.del(keys.active(0, 'h1'), keys.holders(0));
    const repaired = await reconciled(rig);
    assert.deepEqual(Object.keys(repaired), ['flight']);
    rig.checks = true;
    const batch = await rig.batch(core);
    assert.deepEqual([batch.status, batch.x, batch.r], ['cancelled', 20, 0]);
  });
});

describe('one batch on demand', () => {
  test('is counted whatever its state, in slices, and as it was if it changes meanwhile', async () => {
    const core = await rig.create({ tasks: 30 });
    await rig.settle('h1', await rig.claim('h1', 30), 'c');
    await rig.redis.hset(batchKey(core), 'c', 28, 'f', 2);
    assert.deepEqual(await verify(rig.redis, core, SETTINGS), { kind: 'done', repaired: ['counters'] });
    assert.deepEqual(await verify(rig.redis, core, SETTINGS), { kind: 'done', repaired: [] });
    assert.deepEqual(await verify(rig.redis, rig.newCore(), SETTINGS), { kind: 'gone' });
    await rig.check();
  });
});
