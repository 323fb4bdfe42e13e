// A shard whose partition has not answered for long, and does again: what others took over meanwhile is not called here.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { createLog } from '../../src/base/log.ts';
import { CallbackShard } from '../../src/delivery/shard.ts';
import { Outbound } from '../../src/outbound/outbound.ts';
import { keys } from '../../src/store/keys.ts';
import { turn } from '../../src/store/partition.ts';
import { startReceiver } from '../helpers/receiver.ts';
import { until } from '../helpers/redis.ts';
import { SETTINGS, type TaskSpec } from '../helpers/rig.ts';
import { createSpecs, redis } from './pump-scene.ts';

/** Both pass between two looks of whoever has work in flight, which are 2 s apart once he has owned the partition for a while. */
const [FENCE_MS, SILENCE_MS] = [500, 1_000];
const settings = { ...SETTINGS, silence_ms: SILENCE_MS };

/** It has one connection for each origin. The bell of the partition is rung by hand. */
async function scene(t: TestContext) {
  const bells = new Map<string, (message: string, channel: string) => void>();
  const outbound = new Outbound({
    version: '0',
    allow_private: true,
    allow_cidrs: [],
    deny_cidrs: [],
    connections_per_origin_max: 1,
    connections_max: 10,
  });
  const nothing = (): void => {};
  const shard = new CallbackShard({
    client: redis,
    hints: {
      subscribe: async (channel, handler) => bells.set(channel, handler).has(channel),
      unsubscribe: (channel) => bells.delete(channel),
      close: nothing,
    },
    outbound,
    relayer: { relay: async () => {}, carry: async () => {}, sweep: async () => {} },
    company: { help: nothing, left: nothing },
    settings: { ...settings, holder: 'ours', sweep_ms: 60_000, fence_ms: FENCE_MS },
    express: false,
    in_flight_max: 100,
    in_flight_per_origin_max: 100,
    notification_delays_ms: [],
    audit_ms: 60_000,
    meter: { ended: nothing, notified: nothing, lag: nothing, ticked: nothing, granted: nothing, handed_back: nothing },
    tracing: null,
    log: createLog({ level: 'silent' }),
  });
  await shard.start();
  t.after(async () => {
    await shard.stop(0);
    await outbound.close();
  });
  return { shard, ring: (message: string) => bells.get(keys.bell(0))?.(message, keys.bell(0)) };
}

function taskTo(url: string, origin: string): TaskSpec {
  return { head: JSON.stringify({ target: url }), origin };
}

test('a call that waits for a connection while others take over its task is not sent when answers come again', async (t) => {
  const [slow, quick] = [await startReceiver(), await startReceiver()];
  const { shard, ring } = await scene(t);
  await createSpecs([1, 2, 3].map(() => taskTo(slow.at('/slow', { hold: true }), 'slow')));
  shard.assign([0]);
  await slow.heard('/slow', 1);
  assert.equal(shard.in_flight, 3);

  const taken: number[] = [];
  const takeOver = async (): Promise<boolean> => {
    const claim = { call_no: taken.length + 1, budget: 10, room: 10, notes: 10, suspects: 10, unpark: [], rooms: [] };
    const { claimed } = await turn(redis, 0, { ...settings, holder: 'other' }, { settlements: [], tick: true, claim });
    assert.ok(claimed !== null && !(claimed instanceof Error));
    for (const { recoveries } of claimed.tasks) taken.push(recoveries);
    return taken.length > 0;
  };
  await until(takeOver, 10_000, 'another one to take over');
  assert.deepEqual(taken, [1, 1, 1]);

  await createSpecs([taskTo(quick.at('/quick'), 'quick')]);
  ring('0');
  await quick.heard('/quick', 1);
  await until(() => shard.in_flight === 3, 5_000, 'the quick one to end');
  slow.release('/slow');
  await shard.stop(10_000);
  assert.equal(slow.to('/slow').length, 1);
});
