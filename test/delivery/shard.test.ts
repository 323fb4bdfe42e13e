// A shard whose partition has not answered for long, and does again: what others took over meanwhile is not called here.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { createLog } from '../../src/base/log.ts';
import { CallbackShard } from '../../src/delivery/shard.ts';
import { Outbound } from '../../src/outbound/outbound.ts';
import { keys } from '../../src/store/keys.ts';
import { encodeTargets } from '../../src/store/notes.ts';
import { readActive, turn } from '../../src/store/partition.ts';
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

/** Another one takes over what is in flight; then answers come again. Returns how often each of it was recovered. */
async function takenOver(ring: (message: string) => void): Promise<number[]> {
  const taken: number[] = [];
  const takeOver = async (): Promise<boolean> => {
    const claim = { call_no: taken.length + 1, budget: 10, room: 10, notes: 10, suspects: 10, unpark: [], rooms: [] };
    const { claimed } = await turn(redis, 0, { ...settings, holder: 'other' }, { settlements: [], tick: true, claim });
    assert.ok(claimed !== null && !(claimed instanceof Error));
    for (const { recoveries } of claimed.tasks) taken.push(recoveries);
    return taken.length > 0;
  };
  await until(takeOver, 10_000, 'another one to take over');
  const next = await startReceiver();
  await createSpecs([taskTo(next.at('/next'), 'next')]);
  ring('0');
  await next.heard('/next', 1);
  return taken;
}

test('a call that waits for a connection while others take over its task is not sent when answers come again', async (t) => {
  const slow = await startReceiver();
  const { shard, ring } = await scene(t);
  await createSpecs([1, 2, 3].map(() => taskTo(slow.at('/slow', { hold: true }), 'slow')));
  shard.assign([0]);
  await slow.heard('/slow', 1);
  assert.equal(shard.in_flight, 3);
  assert.deepEqual(await takenOver(ring), [1, 1, 1]);
  slow.release('/slow');
  await shard.stop(10_000);
  assert.equal(slow.to('/slow').length, 1);
});

test('nor is a notification', async (t) => {
  const [slow, quick] = [await startReceiver(), await startReceiver()];
  const { shard, ring } = await scene(t);
  await createSpecs([taskTo(slow.at('/slow', { hold: true }), 'slow')]);
  shard.assign([0]);
  await slow.heard('/slow', 1);
  const doc = Buffer.from(JSON.stringify({ notifications: { on_finish: { url: slow.at('/note') } } }));
  const notify = encodeTargets([{ event: 'on_finish', origin: 'slowslow00', min_interval_ms: 0 }]);
  await createSpecs([taskTo(quick.at('/quick'), 'quick')], { doc, notify });
  ring('0');
  const noted = async (): Promise<boolean> => (await readActive(redis, 0, 'ours')).some(({ flight }) => flight.core.endsWith('n'));
  await until(noted, 5_000, 'the notification to be claimed');
  assert.deepEqual(await takenOver(ring), [1, 1]);
  slow.release('/slow');
  await shard.stop(10_000);
  assert.deepEqual([slow.to('/slow').length, slow.to('/note').length], [1, 0]);
});
