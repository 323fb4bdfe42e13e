// Lists of batches by label: each label has a list in its partition, several are matched by walking the smallest.
import assert from 'node:assert/strict';
import { after, beforeEach, describe, test } from 'node:test';
import { keys, labelHash } from '../../src/store/keys.ts';
import { type BatchFilter, listBatches } from '../../src/store/listing.ts';
import { ACCOUNT, SETTINGS, startRig } from '../helpers/rig.ts';

const rig = await startRig();
after(() => rig.redis.disconnect());
beforeEach(() => rig.reset());

const PARTITIONS = 4;
const PROD = labelHash('env', 'prod');
const TEST = labelHash('env', 'test');
const BLUE = labelHash('team', 'blue');

async function page(filter: Partial<BatchFilter>, limit = 100, offset = 0): Promise<{ total: number; cores: string[] }> {
  const found = await listBatches(rig.redis, PARTITIONS, ACCOUNT, { status: null, labels: [], ...filter, limit, offset });
  return { total: found.total, cores: found.rows.map(({ core }) => core) };
}

describe('labels', () => {
  test('a batch is found by each of its labels, by both together, and by none that it has not', async () => {
    const both = await rig.create({ labels: [PROD, BLUE] });
    rig.pass(1);
    const one = await rig.create({ labels: [PROD], partition: 2 });
    rig.pass(1);
    await rig.create({});
    assert.deepEqual(await page({ labels: [PROD] }), { total: 2, cores: [one, both] });
    assert.deepEqual(await page({ labels: [PROD, BLUE] }), { total: 1, cores: [both] });
    assert.deepEqual(await page({ labels: [TEST] }), { total: 0, cores: [] });
    assert.deepEqual(await page({ labels: [TEST, PROD] }), { total: 0, cores: [] });
    assert.equal((await page({})).total, 3);
  });

  test('a status filters with labels, as it stands now', async () => {
    const ended = await rig.create({ labels: [PROD] });
    await rig.settle('h1', await rig.claim('h1', 16), 'c');
    const waits = await rig.create({ labels: [PROD] });
    assert.deepEqual((await page({ labels: [PROD], status: 'completed' })).cores, [ended]);
    assert.deepEqual((await page({ labels: [PROD], status: 'pending' })).cores, [waits]);
  });

  test("an account does not find another's batches by a label of the same name", async () => {
    await rig.create({ labels: [PROD, BLUE], account: 'rival' });
    assert.equal((await page({ labels: [PROD] })).total, 0);
    assert.equal((await page({ labels: [PROD, BLUE] })).total, 0);
  });

  test('pages of several labels neither repeat nor skip, also where a thousand batches have one time', async () => {
    rig.checks = false;
    const expected: string[] = [];
    for (let k = 0; k < 2_200; k++) {
      const matches = k % 2 === 0;
      const partition = k % 3;
      const core = await rig.create({ labels: matches ? [PROD, BLUE] : [PROD], partition });
      if (matches) expected.push(core);
      if (k % 1_000 === 999) rig.pass(1);
    }
    await rig.create({ labels: [BLUE], partition: 3 });
    // The walked list is as long as the other here, so every place of it is looked up.
    for (let k = 0; k < 1_200; k++) await rig.create({ labels: [BLUE], partition: k % 3 });
    rig.checks = true;
    const seen: string[] = [];
    for (let offset = 0; offset < expected.length; offset += 300) {
      const { total, cores } = await page({ labels: [PROD, BLUE] }, 300, offset);
      assert.equal(total, expected.length);
      seen.push(...cores);
    }
    assert.equal(new Set(seen).size, expected.length);
    assert.deepEqual([...seen].sort(), [...expected].sort());
  });

  test('a repeated create lists a batch once, and its purge leaves no label behind', async () => {
    const core = await rig.create({ labels: [PROD, BLUE] });
    rig.pass(10);
    await rig.create({ core, labels: [PROD, BLUE] });
    assert.equal((await page({ labels: [PROD] })).total, 1);
    await rig.cancel(core);
    rig.pass(SETTINGS.keep_ms);
    assert.equal((await rig.tick('h1')).deleted, 1);
    assert.equal(await rig.redis.exists(keys.accountLabel(0, ACCOUNT, PROD), keys.accountLabel(0, ACCOUNT, BLUE)), 0);
  });

  test('a batch that is purged in several slices leaves its labels with the first', async () => {
    const core = await rig.create({ labels: [PROD, BLUE], tasks: 1 });
    rig.checks = false;
    // As a batch of 1,200 segments has it: more than one tick deletes.
    const bases = Buffer.alloc(1_200 * 4);
    for (let k = 0; k < 1_200; k++) bases.writeUInt32BE(k, k * 4);
    await rig.cancel(core);
    await rig.redis.hset(keys.batch(0, core), 'g', bases);
    rig.pass(SETTINGS.keep_ms);
    await rig.tick('h1');
    assert.equal((await page({ labels: [PROD, BLUE] })).total, 0);
    assert.equal(await rig.redis.exists(keys.batch(0, core)), 1);
    for (let k = 0; k < 3; k++) await rig.tick('h1');
    assert.equal(await rig.redis.exists(keys.batch(0, core)), 0);
    rig.checks = true;
    await rig.check();
  });
});
