import assert from 'node:assert/strict';
import { after, test } from 'node:test';

import { type Settlement, turn } from '../../src/store/partition.ts';
import { textOf } from '../../src/store/script.ts';
import { partitionClaim } from '../../src/store/scripts.gen.ts';
import { startRedis } from '../helpers/redis.ts';
import { startRig, T0 } from '../helpers/rig.ts';

const SETTINGS = {
  holder: 'h1',
  silence_ms: 8_000,
  gap_ms: 5_000,
  grace_ms: 5_000,
  keep_ms: 1_000,
  tray_keep_ms: 1_000,
  recoveries_max: 3,
};

const rig = await startRig();
after(() => rig.redis.disconnect());

test('what cannot even be sent is an error of every part, so that nothing the caller sent is lost', async () => {
  const { redis } = await startRedis();
  const flight = { name: 'core,0,0,1,0,30,f:acme:o1', core: 'core', origin: 'o1', base: 0, limit: null };
  const settlement: Settlement = { flight, index: 0, verdict: 'r', delay_ms: 0, result: '' };
  const claim = { call_no: Number.NaN, budget: 1, room: 1, unpark: [], rooms: [], notes: 0, suspects: 10 };
  const reply = await turn(redis, 0, SETTINGS, { settlements: [settlement], tick: true, claim });
  assert.ok(reply.settled instanceof Error && reply.tick instanceof Error && reply.claimed instanceof Error);
});

test('a claim whose server had lost the other two scripts says that there may be more, since they ran after it', async () => {
  await rig.reset();
  await rig.create({ tasks: [{}, { due_ms: T0 + 1_000 }] });
  const [first] = await rig.claim('h1', 10);
  assert.ok(first !== undefined);
  const settlement: Settlement = { flight: first.flight, index: first.index, verdict: 'r', delay_ms: 0, result: '' };
  const claim = (call_no: number) => ({ call_no, budget: 10, room: 10, unpark: [], rooms: [], notes: 0, suspects: 10 });

  for (const { request, call_no, found } of [
    { request: { settlements: [settlement], tick: false }, call_no: 101, found: 0 },
    { request: { settlements: [], tick: true }, call_no: 103, found: 1 },
  ]) {
    await rig.redis.script('FLUSH');
    await rig.redis.script('LOAD', textOf(partitionClaim));
    const before = await turn(rig.redis, 0, SETTINGS, { ...request, claim: claim(call_no) });
    assert.ok(before.claimed !== null && !(before.claimed instanceof Error));
    assert.deepEqual([before.claimed.tasks, before.claimed.more], [[], true]);
    const after = await turn(rig.redis, 0, SETTINGS, { settlements: [], tick: false, claim: claim(call_no + 1) });
    assert.ok(after.claimed !== null && !(after.claimed instanceof Error));
    assert.deepEqual(
      after.claimed.tasks.map(({ index }) => index),
      [found],
    );
    rig.pass(1_000);
  }
});
