// lua/partition/tick.lua under memory pressure: the oldest finished batches go before their time, and nothing else does.
import assert from 'node:assert/strict';
import { after, beforeEach, describe, test } from 'node:test';
import { keys } from '../../../src/store/keys.ts';
import type { Claimed } from '../../../src/store/partition.ts';
import { SETTINGS, startRig } from '../../helpers/rig.ts';

const rig = await startRig();
after(() => rig.redis.disconnect());
beforeEach(() => rig.reset());

const PRESSED = { pressure: true };

async function finished(count: number): Promise<string[]> {
  const cores: string[] = [];
  for (let k = 0; k < count; k++) {
    const core = await rig.create({ tasks: 1 });
    await rig.settle('h1', await rig.claim('h1', 16), 'c');
    cores.push(core);
    rig.pass(1);
  }
  return cores;
}

async function left(cores: readonly string[]): Promise<number[]> {
  const found = await Promise.all(cores.map((core) => rig.redis.exists(keys.batch(0, core))));
  return found.flatMap((exists, k) => (exists === 1 ? [k] : []));
}

describe('retention under memory pressure', () => {
  test('without pressure what has finished stays its time', async () => {
    const cores = await finished(3);
    assert.equal((await rig.tick('h1')).early, 0);
    assert.equal((await left(cores)).length, 3);
  });

  test('the oldest finished go first, twenty a call, with a pause before the next', async () => {
    const cores = await finished(30);
    const first = await rig.tick('h1', PRESSED);
    assert.deepEqual([first.early, first.deleted, first.next_ms - rig.now_ms], [20, 20, 250]);
    assert.deepEqual(await left(cores), [20, 21, 22, 23, 24, 25, 26, 27, 28, 29]);
    assert.equal((await rig.tick('h1', PRESSED)).early, 10);
    assert.deepEqual(await left(cores), []);
    assert.equal((await rig.tick('h1', PRESSED)).early, 0);
  });

  test('what is unfinished stays, whatever its state, and hides nothing that has finished', async () => {
    rig.checks = false;
    const live: string[] = [];
    // More of them than one call looks at, and all before the finished ones.
    for (let k = 0; k < 150; k++) live.push(await rig.create({ tasks: 1, expiration_ms: 50_000 }));
    const held = await rig.create({ hold: true, tasks: 1, expiration_ms: 50_000 });
    const running: Claimed[] = [];
    while (running.length < 151) running.push(...(await rig.claim('h1', 128)));
    await rig.settle(
      'h1',
      running.filter(({ flight }) => flight.core === held),
      'c',
    );
    const cancelled = await rig.create({ tasks: 1 });
    await rig.claim('h1', 16);
    await rig.cancel(cancelled);
    const over = await finished(2);
    rig.checks = true;
    let early = 0;
    for (let calls = 0; calls < 4; calls++) early += (await rig.tick('h1', PRESSED)).early;
    assert.equal(early, 2);
    assert.deepEqual(await left(over), []);
    assert.equal((await left([...live, held, cancelled])).length, 152);
  });

  test('of a batch of many segments a part goes in each call, and the rest also when the pressure ends', async () => {
    rig.checks = false;
    const core = await rig.create({ tasks: 1 });
    await rig.cancel(core);
    const bases = Buffer.alloc(40 * 4);
    for (let k = 0; k < 40; k++) bases.writeUInt32BE(k, k * 4);
    await rig.redis.hset(keys.batch(0, core), 'g', bases);
    const { early } = await rig.tick('h1', PRESSED);
    assert.equal(early, 1);
    assert.equal(await rig.redis.hget(keys.batch(0, core), 's'), 'deleted');
    await rig.tick('h1');
    assert.deepEqual(await left([core]), []);
    rig.checks = true;
    await rig.check();
  });

  test('a tray whose tasks are all over goes too, and its account gets another', async () => {
    const { core } = await rig.single(2);
    await rig.settle('h1', await rig.claim('h1', 16), 'c');
    assert.equal((await rig.tick('h1', PRESSED)).early, 1);
    assert.deepEqual(await left([core]), []);
    const again = await rig.single(1);
    assert.notEqual(again.core, core);
    rig.pass(SETTINGS.tray_keep_ms);
    await rig.tick('h1');
    await rig.check();
  });
});
