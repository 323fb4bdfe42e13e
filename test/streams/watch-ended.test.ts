// src/streams/watch.ts: tasks that end with their batch, where it is cancelled or expires.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { done, ROW, stage } from './watch-scene.ts';

test('tasks that end with their batch are told before its end, once; where they are too many a snapshot is', async () => {
  for (const waiting of [4, 200_000]) {
    const { watch, said, state, hint, says } = stage();
    watch.open('s', true, null);
    await watch.look();
    state.waiting = waiting;
    state.answer = { hint: 2, batch: { ...ROW, status: 'expired', completed: 1, failed: 8, running: 1 }, lost: [] };
    hint(1, [done(9)]);
    // Two that run go on, one of them is handed back.
    hint(1, [], { status: 'expired', failed: 7, running: 2 });
    await says((frames) => frames.some(({ gap, task }) => gap === true || task === 3), 'those that waited');
    state.waiting += 1;
    hint(2, [done(8)], { status: 'expired', failed: 8, finished_ms: 5 });
    await says((frames) => frames.at(-1)?.type === 'finished', 'the end');
    const told = said.filter(({ type }) => type === 'task').map(({ task }) => task);
    assert.deepEqual(told, waiting === 4 ? [9, 0, 1, 2, 3, 8, 4] : [9, 8]);
    assert.equal(
      said.some(({ gap }) => gap === true),
      waiting !== 4,
    );
  }
});

test('who comes after a batch was cancelled is told by its first frame alone what that ended', async () => {
  const { watch, said, state, hint, says } = stage();
  state.answer = { hint: 0, batch: { ...ROW, status: 'cancelled', cancelled: 9, running: 1 }, lost: [] };
  state.waiting = 9;
  watch.open('s', true, null);
  await watch.look();
  hint(1, [done(9)], { status: 'cancelled', cancelled: 9, finished_ms: 5 });
  await says((frames) => frames.at(-1)?.type === 'finished', 'the end');
  assert.deepEqual(
    said.map(({ type }) => type),
    ['snapshot', 'task', 'finished'],
  );
});

test('the end that comes while those that ended with their batch are read has them read once more', async () => {
  const { watch, said, state, hint, says } = stage();
  watch.open('s', true, null);
  await watch.look();
  state.waiting = 2;
  state.answer = { hint: 1, batch: { ...ROW, status: 'cancelled', cancelled: 2, running: 1 }, lost: [] };
  // The last one is handed back right behind the read, and with it the batch ends.
  state.behind_read = () => {
    state.waiting = 3;
    hint(0, [], { status: 'cancelled', cancelled: 3, finished_ms: 1 });
  };
  hint(0, [], { status: 'cancelled', cancelled: 2, running: 1 });
  await says((frames) => frames.at(-1)?.type === 'finished', 'the end');
  assert.deepEqual(
    said.filter(({ type }) => type === 'task').map(({ task }) => task),
    [0, 1, 2],
  );
});
