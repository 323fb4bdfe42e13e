// How old tasks of a limiter may become, as its callers know it: read from a real Redis, by a clock that the test turns.
import assert from 'node:assert/strict';
import { after, beforeEach, test } from 'node:test';
import { Validity } from '../../src/delivery/validity.ts';
import type { FlightLimit } from '../../src/store/claimed.ts';
import * as limiters from '../../src/store/limiters.ts';
import type { Settlement } from '../../src/store/partition.ts';
import { ACCOUNT, startRig } from '../helpers/rig.ts';

const rig = await startRig();
after(() => rig.redis.disconnect());
beforeEach(() => rig.reset());

let now_ms = 0;
const NO_TIME = { valid_until_ms: null };

async function limiter(validity_timeout: number): Promise<FlightLimit> {
  const lane = rig.newCore();
  const made = {
    core: lane,
    account_id: ACCOUNT,
    name: 'one',
    type: 'window',
    config: { limit: 1, interval: 1 },
    description: null,
    cooldown: 'task',
  } as const;
  await limiters.createLimiter(rig.redis, { ...made, timeouts: { queue_timeout: 300, validity_timeout } });
  return { lane, kind: 'w', cost: 1, granted_ms: '0', first_ms: 1_000, life_ms: 500, spare: false, cools: false };
}

/** The times that a settlement was asked for with, and whether it came before anything was waited for. */
function asked(
  validity: Validity,
  limit: FlightLimit | null,
  spec = NO_TIME as { valid_until_ms: number | null },
  verdict = 'r',
): Promise<[at_once: boolean, ...(number | null)[]]> {
  return new Promise((resolve) => {
    const times: (number | null)[] = [];
    let at_once = true;
    const settle = (until_ms: number | null): Settlement => {
      times.push(until_ms);
      return { verdict } as Settlement;
    };
    validity.settle(limit, spec, settle, () => resolve([at_once, ...times]));
    at_once = false;
  });
}

test('a retry is judged by the time of its limiter; what is none, has a time of its own or no limiter at once', async () => {
  const validity = new Validity(rig.redis, () => now_ms);
  const limit = await limiter(60);
  assert.deepEqual(await asked(validity, limit), [false, null, 61_000]);
  assert.deepEqual(await asked(validity, { ...limit, first_ms: 5_000 }), [false, null, 65_000]);
  assert.deepEqual(await asked(validity, limit, NO_TIME, 'f'), [true, null]);
  assert.deepEqual(await asked(validity, limit, { valid_until_ms: 7 }), [true, null]);
  assert.deepEqual(await asked(validity, null), [true, null]);
});

test('a change is known after a second, and a deleted limiter bounds nothing', async () => {
  const validity = new Validity(rig.redis, () => now_ms);
  const limit = await limiter(60);
  await asked(validity, limit);
  await limiters.patchLimiter(rig.redis, ACCOUNT, limit.lane, { timeouts: { queue_timeout: 300, validity_timeout: 5 } });
  now_ms += 999;
  assert.deepEqual(await asked(validity, limit), [false, null, 61_000]);
  now_ms += 1;
  assert.deepEqual(await asked(validity, limit), [false, null, 6_000]);
  await limiters.deleteLimiter(rig.redis, ACCOUNT, limit.lane);
  now_ms += 1_000;
  assert.deepEqual(await asked(validity, limit), [false, null]);
});

test('where Redis cannot be asked the retry is as its policy says', async () => {
  const gone = rig.redis.duplicate({ lazyConnect: true, retryStrategy: null });
  gone.disconnect();
  assert.deepEqual(await asked(new Validity(gone), await limiter(60)), [false, null]);
});
