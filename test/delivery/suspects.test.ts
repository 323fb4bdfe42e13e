// Tasks at their last chance start one at a time.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RECOVERIES_MAX } from '../../src/base/limits.ts';
import { Suspects } from '../../src/delivery/suspects.ts';
import type { Claimed } from '../../src/store/claimed.ts';

const task = (recoveries: number): Claimed => ({ recoveries }) as Claimed;
const suspect = task(RECOVERIES_MAX - 1);

test('a suspect waits while another runs, and nobody else does', () => {
  const suspects = new Suspects();
  assert.equal(suspects.wait_ms(suspect), 0);
  const call = { finished: false, abort() {} };
  suspects.began(suspect, call);
  assert.ok(suspects.wait_ms(suspect) > 0);
  assert.equal(suspects.wait_ms(task(RECOVERIES_MAX - 2)), 0);
  call.finished = true;
  assert.equal(suspects.wait_ms(suspect), 0, 'it has ended');
});

test('a call of an ordinary task holds no suspect up', () => {
  const suspects = new Suspects();
  suspects.began(task(0), { finished: false, abort() {} });
  assert.equal(suspects.wait_ms(suspect), 0);
});
