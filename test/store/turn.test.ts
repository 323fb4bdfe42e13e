import assert from 'node:assert/strict';
import { test } from 'node:test';

import { type Settlement, turn } from '../../src/store/partition.ts';
import { startRedis } from '../helpers/redis.ts';

const SETTINGS = {
  holder: 'h1',
  silence_ms: 8_000,
  gap_ms: 5_000,
  grace_ms: 5_000,
  keep_ms: 1_000,
  tray_keep_ms: 1_000,
  recoveries_max: 3,
};

test('what cannot even be sent is an error of every part, so that nothing the caller sent is lost', async () => {
  const { redis } = await startRedis();
  const flight = { name: 'core,0,0,1,0,30,f:acme:o1', core: 'core', origin: 'o1', base: 0 };
  const settlement: Settlement = { flight, index: 0, verdict: 'r', delay_ms: 0, result: '' };
  const claim = { call_no: Number.NaN, budget: 1, room: 1, unpark: [], rooms: [], notes: 0 };
  const reply = await turn(redis, 0, SETTINGS, { settlements: [settlement], tick: true, claim });
  assert.ok(reply.settled instanceof Error && reply.tick instanceof Error && reply.claimed instanceof Error);
});
