// src/streams/hub.ts: which thread serves which stream, and what happens when a thread starts again.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newCore } from '../../src/base/id.ts';
import { StreamHub } from '../../src/streams/hub.ts';
import type { StreamGrant, ToStreamThread } from '../../src/streams/messages.ts';

const EVEN = newCore(4, 1);
const ODD = newCore(5, 1);
const grant = (stream: string, core = EVEN): StreamGrant => ({ stream, core, tasks: false });

function stage() {
  const posted: [number, ToStreamThread][] = [];
  const hub = new StreamHub(2, (index, message) => void posted.push([index, message]));
  const out: string[] = [];
  hub.outlet = {
    join: (stream, topic) => void out.push(`join ${stream} ${topic}`),
    publish: (topic, _frames, ends) => void out.push(`publish ${topic} ${ends.length}`),
    end: (topic, end) => void out.push(`end ${topic} ${end}`),
    endOne: (stream, end) => void out.push(`end ${stream} ${end}`),
  };
  const frames = (seq: number): void => hub.onMessage(0, { type: 'frames', topic: EVEN, seq, frames: new Uint8Array(7), ends: [3, 7] });
  const join = (stream: string, seq: number): void =>
    hub.onMessage(0, { type: 'join', stream, topic: EVEN, seq, frame: new Uint8Array(2) });
  return { hub, posted, out, frames, join };
}

test('a stream is served by the thread of its partition', () => {
  const { hub, posted } = stage();
  hub.open(grant('a'));
  hub.open(grant('b', ODD));
  hub.close(grant('b', ODD));
  assert.deepEqual(
    posted.map(([index, { type }]) => [index, type]),
    [
      [0, 'open'],
      [1, 'open'],
      [1, 'close'],
    ],
  );
  assert.equal(hub.count, 1);
});

test('what a thread sends goes out, and it is told how much was taken', () => {
  const { hub, posted, out, frames, join } = stage();
  hub.open(grant('a'));
  join('a', 0);
  frames(2);
  hub.onMessage(0, { type: 'end', topic: EVEN, end: 'finished' });
  hub.onMessage(0, { type: 'end_one', stream: 'a', end: 'crowded' });
  assert.deepEqual(out, [`join a ${EVEN}`, `publish ${EVEN} 2`, `end ${EVEN} finished`, 'end a crowded']);
  assert.deepEqual(posted.at(-1), [0, { type: 'taken', bytes: 7 }]);
});

test('a stream that was closed meanwhile is not joined', () => {
  const { hub, out, join } = stage();
  hub.open(grant('a'));
  hub.close(grant('a'));
  join('a', 0);
  assert.deepEqual(out, []);
});

test('a thread that starts again gets its streams, with the number of the last frame of each that had begun', () => {
  const { hub, posted, frames, join } = stage();
  hub.open(grant('a'));
  hub.open(grant('b', ODD));
  join('a', 0);
  frames(41);
  hub.open(grant('late'));
  hub.open(grant('left'));
  hub.close(grant('left'));
  posted.length = 0;
  hub.onReady(0);
  assert.deepEqual(posted, [
    [0, { type: 'open', behind: 41, ...grant('a') }],
    [0, { type: 'open', behind: null, ...grant('late') }],
  ]);
});
