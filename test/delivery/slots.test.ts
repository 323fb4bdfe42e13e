import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Fence } from '../../src/delivery/fence.ts';
import { Slots } from '../../src/delivery/slots.ts';
import { until } from '../helpers/redis.ts';

test('a call that holds a slot ends where others may have taken its task over, also once answers come again', async (t) => {
  const clock = { ms: 0 };
  const fence = new Fence(100, () => clock.ms);
  const slots = new Slots();
  t.after(() => slots.close());
  const ended: string[] = [];
  const take = (name: string): void => {
    const call = { finished: false, abort: (reason: string) => ended.push(`${name} ${reason}`) };
    slots.taken({ call, pump: { fence }, since: fence.since(clock.ms) });
  };
  take('before');
  clock.ms = 101;
  fence.answered(101);
  take('after');
  await until(() => ended.length > 0, 5_000, 'the first of them to end');
  assert.deepEqual(ended, ['before shutdown']);
});
