// src/streams/watch.ts: from hints and looks to frames, with a Redis that says what the test wants.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../helpers/redis.ts';
import { done, ROW, stage } from './watch-scene.ts';

test('hints that come fast are merged; the newest is told', async () => {
  const { watch, said, hint, says } = stage();
  watch.open('s', false, null);
  await watch.look();
  for (let i = 1; i <= 9; i++) hint(i);
  await says((frames) => frames.at(-1)?.completed === 9, 'the newest');
  assert.deepEqual(said, [
    { type: 'snapshot', seq: 0, completed: 0 },
    { type: 'progress', seq: 1, completed: 9 },
  ]);
});

test('the end is told once, after all tasks, and ends the stream', async () => {
  const { watch, said, messages, gone, hint, says } = stage();
  watch.open('s', true, null);
  await watch.look();
  hint(2, [done(0, 2)]);
  hint(10, [done(2, 8)], { status: 'completed', finished_ms: 5 });
  await says((frames) => frames.at(-1)?.type === 'finished', 'the end');
  assert.deepEqual(
    said
      .slice(1, -1)
      .filter(({ type }) => type === 'task')
      .map(({ task }) => task),
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
  );
  assert.equal(said.filter(({ type }) => type === 'finished').length, 1);
  assert.deepEqual(
    said.map(({ seq }) => seq),
    said.map((_, i) => i),
  );
  assert.deepEqual(messages.at(-1), { type: 'end', topic: 'core+', end: 'finished' });
  assert.deepEqual(gone, ['s']);
});

test('a number that is missing makes a fresh snapshot, with gap', async () => {
  const { watch, said, hint, lose, says } = stage();
  watch.open('s', true, null);
  await watch.look();
  hint(1, [done(0)]);
  await says((frames) => frames.some(({ type }) => type === 'progress'), 'progress');
  lose(2);
  hint(4, [done(3)]);
  await says((frames) => frames.at(-1)?.gap === true, 'the gap');
  assert.deepEqual(said.slice(-2), [
    { type: 'task', seq: 3, task: 3 },
    { type: 'snapshot', seq: 4, completed: 4, gap: true },
  ]);
});

test('what a look has seen and no hint tells is a gap, and the end comes all the same', async () => {
  const { watch, said, state, says } = stage();
  watch.open('s', true, null);
  await watch.look();
  state.answer = { hint: 3, batch: { ...ROW, status: 'completed', completed: 10, finished_ms: 9 }, lost: [] };
  await watch.look();
  await says((frames) => frames.at(-1)?.type === 'finished', 'the end');
  assert.deepEqual(
    said.filter(({ gap }) => gap === true).map(({ completed }) => completed),
    [10],
  );
  assert.ok(state.looks >= 3, 'it looked again before it gave the hints up');
});

test('a look that is older than the hints changes nothing', async () => {
  const { watch, said, state, hint, says } = stage();
  watch.open('s', false, null);
  await watch.look();
  const look = watch.look(); // was answered before the hint, and comes in after it
  hint(5);
  await look;
  await says((frames) => frames.length === 2, 'progress');
  state.answer = { hint: 1, batch: { ...ROW, completed: 5 }, lost: [] };
  await watch.look();
  hint(6);
  await says((frames) => frames.at(-1)?.completed === 6, 'the next');
  assert.deepEqual(
    said.map(({ completed }) => completed),
    [0, 5, 6],
  );
});

test('where Redis has lost its latest writes, a snapshot with gap says so', async () => {
  const { watch, said, state, hint, says } = stage();
  watch.open('s', false, null);
  await watch.look();
  hint(5);
  await says((frames) => frames.at(-1)?.completed === 5, 'progress');
  state.answer = { hint: 0, batch: { ...ROW, completed: 3 }, lost: [] };
  await watch.look();
  await says((frames) => frames.at(-1)?.gap === true, 'the gap');
  assert.equal(said.at(-1)?.completed, 3);
});

test('what happened while the watch had lapsed is a gap', async () => {
  const { watch, said, state, says } = stage();
  watch.open('s', false, null);
  await watch.look();
  state.answer = { hint: 0, batch: { ...ROW, completed: 3 }, lost: [] };
  await watch.look();
  await says((frames) => frames.length === 2, 'the gap');
  assert.deepEqual(said[1], { type: 'snapshot', seq: 1, completed: 3, gap: true });
});

test('streams that join later begin with a snapshot, and with the number of the others', async () => {
  const { watch, said, hint, messages, says } = stage();
  watch.open('one', false, null);
  await watch.look();
  hint(1);
  await says((frames) => frames.length === 2, 'progress');
  watch.open('two', false, null);
  watch.open('three', true, null);
  await watch.look();
  hint(2);
  await says((frames) => frames.length >= 6, 'progress for both kinds');
  assert.deepEqual(
    messages.filter((message) => message.type === 'join').map(({ stream, topic, seq }) => [stream, topic, seq]),
    [
      ['one', 'core', 0],
      ['two', 'core', 1],
      ['three', 'core+', 0],
    ],
  );
  assert.deepEqual(
    said.slice(-2).map(({ seq, completed }) => [seq, completed]),
    [
      [2, 2],
      [1, 2],
    ],
  );
});

test('a stream of a thread’s earlier life goes on with a snapshot with gap and the next number', async () => {
  const { watch, said } = stage();
  watch.open('s', false, 41);
  watch.open('t', false, 41);
  await watch.look();
  assert.deepEqual(said, [
    { type: 'snapshot', seq: 42, completed: 0, gap: true },
    { type: 'snapshot', seq: 42, completed: 0, gap: true },
  ]);
});

test('while the main thread is behind nothing is sent, and then the newest', async () => {
  const { watch, said, state, hint, says } = stage();
  watch.open('s', false, null);
  await watch.look();
  state.room = false;
  hint(1);
  const looks = state.looks;
  await new Promise((resolve) => setImmediate(resolve));
  hint(2);
  state.room = true;
  await says((frames) => frames.length > 1, 'progress');
  assert.deepEqual([said.at(-1)?.completed, state.looks], [2, looks]);
});

test('more tasks than may wait are told by a snapshot', async () => {
  const { watch, said, hint, says } = stage();
  watch.open('s', true, null);
  await watch.look();
  hint(1, [done(0, 100_001)]);
  await says((frames) => frames.at(-1)?.gap === true, 'the gap');
  assert.equal(said.length, 2);
});

test('many tasks at once are told in slices, all of them', async () => {
  const { watch, said, hint, says, messages } = stage();
  watch.open('s', true, null);
  await watch.look();
  hint(1_300, [done(0, 700), done(700, 600)]);
  await says((frames) => frames.filter(({ type }) => type === 'task').length === 1_300, 'all tasks');
  const sizes = messages.filter((message) => message.type === 'frames').map(({ ends }) => ends.length);
  assert.ok(Math.max(...sizes) <= 501, `${sizes}`);
  assert.deepEqual(
    said.filter(({ type }) => type === 'task').map(({ task }) => task),
    Array.from({ length: 1_300 }, (_, i) => i),
  );
});

test('a Redis that fails is asked again, for looks and for results', async () => {
  const { watch, said, state, hint, says } = stage();
  state.answer = new Error('not now');
  watch.open('s', true, null);
  await watch.look();
  state.answer = { hint: 0, batch: ROW, lost: [] };
  await says((frames) => frames.length === 1, 'the snapshot');
  state.results = new Error('not now');
  hint(1, [done(0)]);
  await until(() => state.reads > 0, 2_000, 'the first read');
  state.results = null;
  await says((frames) => frames.at(-1)?.type === 'progress', 'progress');
  assert.deepEqual(
    said.map(({ type }) => type),
    ['snapshot', 'task', 'progress'],
  );
});

test('of a batch that is gone right after its end, who has seen all but that is told it', async () => {
  const { watch, said, messages, state, hint, says } = stage();
  watch.open('s', false, null);
  watch.open('t', true, null);
  await watch.look();
  hint(10, [], { finished_ms: 5, status: 'completed' });
  watch.open('late', false, null);
  state.answer = { hint: 0, batch: null, lost: [] };
  await watch.look();
  await says((frames) => frames.filter(({ type }) => type === 'finished').length === 2, 'the end, to both');
  assert.equal(said.at(-1)?.completed, 10);
  const ends = messages.filter(({ type }) => type === 'end' || type === 'end_one');
  assert.deepEqual(ends, [
    { type: 'end', topic: 'core', end: 'finished' },
    { type: 'end', topic: 'core+', end: 'finished' },
    { type: 'end_one', stream: 'late', end: 'deleted' },
  ]);
});

test('a batch that is gone, or a place that was lost, ends the stream', async () => {
  const { watch, messages, state, gone } = stage();
  watch.open('s', false, null);
  watch.open('t', false, null);
  await watch.look();
  state.answer = { hint: 0, batch: ROW, lost: ['t'] };
  await watch.look();
  assert.deepEqual(messages.at(-1), { type: 'end_one', stream: 't', end: 'crowded' });
  watch.open('u', false, null);
  state.answer = { hint: 0, batch: null, lost: [] };
  await watch.look();
  assert.deepEqual(messages.slice(-2), [
    { type: 'end', topic: 'core', end: 'deleted' },
    { type: 'end_one', stream: 'u', end: 'deleted' },
  ]);
  assert.deepEqual(gone, ['t', 's', 'u']);
});
