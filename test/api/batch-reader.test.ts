// Reads of batches that come in together: one call, and to each caller as if he had come alone.
import assert from 'node:assert/strict';
import { after, beforeEach, describe, test } from 'node:test';
import { BatchReader } from '../../src/api/batch-reader.ts';
import { READ_GROUP_MAX } from '../../src/base/limits.ts';
import { ACCOUNT, startRig } from '../helpers/rig.ts';

const rig = await startRig();
after(() => rig.redis.disconnect());
beforeEach(() => rig.reset());

describe('reads of batches that come in together', () => {
  test('each gets its own batch, and nobody another account’s', async () => {
    const reader = new BatchReader({ client: rig.redis, limit: 0 });
    const [one, other] = [await rig.create({ tasks: 1 }), await rig.create({ tasks: 2 })];
    const reads = await Promise.all([
      reader.read(ACCOUNT, one),
      reader.read(ACCOUNT, other),
      reader.read('0000000000', one),
      reader.read(ACCOUNT, one),
      reader.read(ACCOUNT, `${one.slice(0, -1)}${one.endsWith('z') ? 'y' : 'z'}`),
    ]);
    const totals = reads.map((read) => (read.kind === 'read' ? [read.batch.core, read.batch.total] : read.kind));
    assert.deepEqual(totals, [[one, 1], [other, 2], 'missing', [one, 1], 'missing']);
  });

  test('each takes from the limit, and those beyond it are refused', async () => {
    const reader = new BatchReader({ client: rig.redis, limit: 5 });
    const core = await rig.create({ tasks: 1 });
    const ask = (count: number) => Promise.all(Array.from({ length: count }, () => reader.read(ACCOUNT, core)));
    const told = [...(await ask(3)), ...(await ask(4))].map((read) => [read.kind, read.kind === 'missing' ? null : read.quota.left]);
    assert.deepEqual(told, [
      ['read', 4],
      ['read', 3],
      ['read', 2],
      ['read', 1],
      ['read', 0],
      ['refused', 0],
      ['refused', 0],
    ]);
  });

  test('they are one call, and no call has more than it may', async () => {
    const reader = new BatchReader({ client: rig.redis, limit: 0 });
    const core = await rig.create({ tasks: 1 });
    await reader.read(ACCOUNT, core);
    const calls = async (count: number): Promise<number> => {
      const before = await rig.scriptCalls();
      const reads = await Promise.all(Array.from({ length: count }, () => reader.read(ACCOUNT, core)));
      assert.ok(reads.every(({ kind }) => kind === 'read'));
      return (await rig.scriptCalls()) - before;
    };
    assert.equal(await calls(50), 1);
    assert.equal(await calls(READ_GROUP_MAX + 1), 2);
  });

  test('where the store cannot be asked each fails', async () => {
    const gone = rig.redis.duplicate();
    const reader = new BatchReader({ client: gone, limit: 0 });
    const core = await rig.create({ tasks: 1 });
    gone.disconnect();
    const reads = await Promise.allSettled([reader.read(ACCOUNT, core), reader.read(ACCOUNT, core)]);
    assert.deepEqual(
      reads.map(({ status }) => status),
      ['rejected', 'rejected'],
    );
  });
});
