// Tasks at their last chance are held one at a time.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RECOVERIES_MAX } from '../../src/base/limits.ts';
import { InFlight } from '../../src/delivery/in-flight.ts';
import { Suspects } from '../../src/delivery/suspects.ts';
import type { Claimed } from '../../src/store/claimed.ts';

const task = (name: string, recoveries: number): Claimed => ({ flight: { name }, recoveries }) as Claimed;
const suspect = task('suspect', RECOVERIES_MAX - 1);
const another = task('another', RECOVERIES_MAX - 1);

test('one claim at a time may bring a suspect', () => {
  const [one, two] = [new InFlight(), new InFlight()];
  const suspects = new Suspects();
  assert.ok(suspects.mayAsk(one));
  assert.ok(!suspects.mayAsk(two));
  suspects.answered(two, []);
  assert.ok(!suspects.mayAsk(two), 'that of the other still runs');
  suspects.answered(one, [task('fresh', 0)]);
  assert.ok(suspects.mayAsk(two));
});

test('a claim that failed may have brought one, and another may ask only after a second', (t) => {
  const [one, two] = [new InFlight(), new InFlight()];
  const suspects = new Suspects();
  let now_ms = 1_000;
  t.mock.method(performance, 'now', () => now_ms);
  assert.ok(suspects.mayAsk(one));
  suspects.answered(one, null);
  assert.ok(!suspects.mayAsk(two));
  now_ms += 900;
  assert.ok(suspects.mayAsk(one), 'the same number again');
  now_ms += 100;
  assert.ok(suspects.mayAsk(two));
});

test('until the outcome of a suspect was told no claim brings another, and one that comes nevertheless waits', () => {
  const [one, two] = [new InFlight(), new InFlight()];
  const suspects = new Suspects();
  assert.ok(suspects.mayAsk(one));
  suspects.answered(one, [suspect]);
  one.claimed([suspect]);
  assert.equal(suspects.wait_ms(one, suspect), 0, 'it starts');
  assert.ok(!suspects.mayAsk(two));
  assert.ok(suspects.wait_ms(two, another) > 0);
  assert.equal(suspects.wait_ms(two, task('other', RECOVERIES_MAX - 2)), 0);
  one.landed('suspect');
  assert.ok(suspects.mayAsk(two));
});

test('one that came by itself is held like one that was asked for', () => {
  const flying = new InFlight();
  const suspects = new Suspects();
  flying.claimed([suspect, another]);
  assert.equal(suspects.wait_ms(flying, suspect), 0);
  assert.ok(suspects.wait_ms(flying, another) > 0);
  assert.ok(!suspects.mayAsk(flying));
});

test('an ordinary task holds no suspect up', () => {
  const flying = new InFlight();
  const suspects = new Suspects();
  flying.claimed([task('fresh', 0)]);
  assert.equal(suspects.wait_ms(flying, task('fresh', 0)), 0);
  assert.equal(suspects.wait_ms(flying, suspect), 0);
});
