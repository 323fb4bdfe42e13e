// src/delivery/pumps.ts: which pumps a thread has, of partitions that come and go.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Pump } from '../../src/delivery/pump.ts';
import { Pumps } from '../../src/delivery/pumps.ts';
import type { HintHandler } from '../../src/store/hints.ts';
import { keys } from '../../src/store/keys.ts';
import { until } from '../helpers/redis.ts';
import { SETTINGS } from '../helpers/rig.ts';
import { ended, isFree, single } from './express-scene.ts';
import { Host, redis } from './pump-scene.ts';

test('an express that loses a partition and gets it again while a task runs goes on there', async (t) => {
  const host = new Host();
  const handlers = new Map<string, HintHandler>();
  const listener = redis.duplicate();
  t.after(() => listener.disconnect());
  listener.on('smessageBuffer', (name: Buffer, message: Buffer) =>
    handlers.get(name.toString())?.(message.toString('latin1'), name.toString()),
  );
  await listener.ssubscribe(keys.handed(0));
  const hints = {
    subscribe: async (channel: string, handler: HintHandler) => {
      handlers.set(channel, handler);
      return true;
    },
    unsubscribe: (channel: string) => void handlers.delete(channel),
    close: () => {},
  };
  const made: Pump[] = [];
  const make = (partition: number): Pump => {
    const pump = new Pump(partition, redis, { ...SETTINGS, holder: 'free', sweep_ms: 60_000, fence_ms: 60_000 }, host);
    made.push(pump);
    t.after(() => pump.close());
    return pump;
  };
  const pumps = new Pumps(make, hints, { help: () => {}, left: () => {} }, true);

  pumps.assign([0]);
  await until(isFree, 5_000, 'the offer');
  await single();
  await until(() => host.started.length === 1, 5_000, 'the first task');
  pumps.assign([]);
  pumps.assign([0]);
  ended(made[0] ?? assert.fail(), host.started[0] ?? assert.fail());
  await made[0]?.drained();
  assert.deepEqual(
    [...pumps].map((pump) => pump.assigned),
    [true],
  );
  await until(isFree, 5_000, 'the next offer');
  await single();
  await until(() => host.started.length === 2, 5_000, 'the second task');
  ended(made[0] ?? assert.fail(), host.started[1] ?? assert.fail());
  await until(async () => (await redis.zcard(keys.active(0, 'free'))) === 0, 5_000, 'the second to be settled');
  assert.equal(made.length, 1);
});
