import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { assign, partitionsOf } from '../../src/delivery/ownership.ts';

const members = fc.uniqueArray(fc.record({ id: fc.stringMatching(/^[a-z0-9]{4,9}$/), threads: fc.integer({ min: 1, max: 4 }) }), {
  selector: ({ id }) => id,
  minLength: 1,
  maxLength: 6,
});

describe('ownership', () => {
  test('every partition has one owner, and loads differ by one at most', () => {
    fc.assert(
      fc.property(members, fc.integer({ min: 1, max: 128 }), (all, partitions) => {
        const owned = all.flatMap(({ id }) => partitionsOf(id, all, partitions));
        assert.deepEqual(
          owned.flat().sort((a, b) => a - b),
          Array.from({ length: partitions }, (_, p) => p),
        );
        const loads = owned.map((list) => list.length);
        assert.ok(Math.max(...loads) - Math.min(...loads) <= 1, `loads ${loads}`);
      }),
    );
  });

  test('all who see the same members agree, in whatever order they see them', () => {
    fc.assert(
      fc.property(members, (all) => {
        const reversed = [...all].reverse();
        for (const { id } of all) assert.deepEqual(partitionsOf(id, all, 32), partitionsOf(id, reversed, 32));
      }),
    );
  });

  test('when one of four threads leaves, most partitions stay where they are', () => {
    const names = ['a', 'b', 'c', 'd'].map((id) => ({ id, thread: 0 }));
    const before = assign(names, 64);
    const after = assign(names.slice(0, 3), 64);
    const moved = before.filter((owner, p) => owner?.id !== 'd' && owner?.id !== after[p]?.id).length;
    assert.ok(moved <= 32, `${moved} of 48 moved`);
  });

  test('nobody owns anything where nobody is', () => {
    assert.deepEqual(assign([], 4), [undefined, undefined, undefined, undefined]);
    assert.deepEqual(partitionsOf('gone', [{ id: 'a', threads: 1 }], 4), []);
  });
});
