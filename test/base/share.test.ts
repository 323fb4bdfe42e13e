import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Share } from '../../src/base/share.ts';

test('what took 3 ms of a tenth of the time may begin again after 30', () => {
  let now_ms = 1_000;
  const share = new Share(1 / 10, () => now_ms);
  assert.equal(share.isLeft, true);
  assert.equal(
    share.spend(() => {
      now_ms += 3;
      return 'done';
    }),
    'done',
  );
  now_ms = 1_029.9;
  assert.equal(share.isLeft, false);
  now_ms = 1_030;
  assert.equal(share.isLeft, true);
});

test('work that throws has taken its time, too', () => {
  let now_ms = 0;
  const share = new Share(1 / 2, () => now_ms);
  assert.throws(
    () =>
      share.spend(() => {
        now_ms = 4;
        throw new Error('bad');
      }),
    /bad/,
  );
  now_ms = 7;
  assert.equal(share.isLeft, false);
  now_ms = 8;
  assert.equal(share.isLeft, true);
});
