import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Placement } from '../../src/api/placement.ts';

const MOVING = new Error('TRYAGAIN slot 7 is on its way to 127.0.0.1:7001; nothing was done');
const LOST = new Error('Connection is closed.');

/** Makes something where `failing` says nothing; which partitions were tried. */
async function place(placement: Placement, failing: ReadonlyMap<number, Error>): Promise<{ tried: number[]; error: unknown }> {
  const tried: number[] = [];
  const make = async (partition: number): Promise<void> => {
    tried.push(partition);
    const error = failing.get(partition);
    if (error !== undefined) throw error;
  };
  const error: unknown = await placement
    .place(() => placement.next(), make)
    .then(
      () => null,
      (reason: unknown) => reason,
    );
  return { tried, error };
}

test('each partition has its turn', () => {
  const placement = new Placement({ now: 4 });
  const turns = Array.from({ length: 8 }, () => placement.next());
  assert.deepEqual(turns.slice(0, 4).toSorted(), [0, 1, 2, 3]);
  assert.deepEqual(turns.slice(4), turns.slice(0, 4));
});

test('where a partition moves, the next one is taken, and new work stays away from it for a second', async () => {
  const placement = new Placement({ now: 4 });
  const bad = (placement.next() + 1) % 4;
  const { tried, error } = await place(placement, new Map([[bad, MOVING]]));
  assert.deepEqual([tried, error], [[bad, (bad + 1) % 4], null]);
  const later = Array.from({ length: 8 }, () => placement.next());
  assert.ok(!later.includes(bad), String(later));
  for (const account of ['a', 'b', 'c', 'd']) assert.notEqual(placement.forTray(account, 1), bad);
});

test('what may have been done is not done again', async () => {
  const placement = new Placement({ now: 4 });
  const bad = (placement.next() + 1) % 4;
  const { tried, error } = await place(placement, new Map([[bad, LOST]]));
  assert.deepEqual([tried, error], [[bad], LOST]);
  assert.notEqual((await place(placement, new Map())).tried[0], bad);
});

test('a bug is not tried elsewhere; where all partitions move, the second refusal stands', async () => {
  const placement = new Placement({ now: 4 });
  const bug = new Error('WRONGTYPE');
  assert.equal((await place(placement, new Map([0, 1, 2, 3].map((partition) => [partition, bug])))).tried.length, 1);
  const everywhere = new Map([0, 1, 2, 3].map((partition) => [partition, MOVING]));
  for (let i = 0; i < 4; i++) {
    const { tried, error } = await place(placement, everywhere);
    assert.deepEqual([tried.length, error], [2, MOVING]);
  }
});
