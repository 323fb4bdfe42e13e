import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readableAtOnce } from '../../src/store/task-rows.ts';

const bases = [0, 10, 20, 30];

test('tasks are read two segments at a time, in the order in which they are asked for', () => {
  assert.deepEqual(readableAtOnce({ bases }, [0, 9, 10, 19, 20, 35]), [
    [0, 9, 10, 19],
    [20, 35],
  ]);
  assert.deepEqual(readableAtOnce({ bases }, [35, 31, 25, 12, 9, 1]), [
    [35, 31, 25],
    [12, 9, 1],
  ]);
  assert.deepEqual(readableAtOnce({ bases: [0] }, [0, 500, 999]), [[0, 500, 999]]);
  assert.deepEqual(readableAtOnce({ bases }, []), []);
});

test('and where it is said, so many at most', () => {
  assert.deepEqual(readableAtOnce({ bases }, [0, 1, 2, 3, 10, 20, 21], 3), [
    [0, 1, 2],
    [3, 10],
    [20, 21],
  ]);
});
