import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Turns } from '../../src/delivery/turns.ts';

const ended = (): Promise<void> => new Promise((end) => setImmediate(end));

test('a turn in which much was done is long until one is shorter, though nothing is done in that', async () => {
  const clock = { ms: 0 };
  const seen: boolean[] = [];
  const turns: Turns = new Turns(
    () => seen.push(turns.long),
    () => clock.ms,
  );
  turns.work();
  turns.work();
  clock.ms += 5;
  await ended();
  assert.deepEqual(seen, [false], 'once a turn');
  turns.work();
  clock.ms += 50;
  await ended();
  assert.equal(turns.long, true);
  clock.ms += 1;
  await ended();
  assert.deepEqual([turns.long, seen], [false, [false, true, false]]);
  clock.ms += 50;
  await ended();
  assert.equal(seen.length, 3, 'nothing was done');
});
