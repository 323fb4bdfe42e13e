// An express, what it hears, and the owner of its partition.
import type { TestContext } from 'node:test';
import type { Redis } from 'ioredis';
import { newCore } from '../../src/base/id.ts';
import { Pump } from '../../src/delivery/pump.ts';
import { createTasks, newOperation } from '../../src/store/batches.ts';
import { keys } from '../../src/store/keys.ts';
import type { Claimed } from '../../src/store/partition.ts';
import { partitionClaim } from '../../src/store/scripts.gen.ts';
import { until } from '../helpers/redis.ts';
import { ACCOUNT, SETTINGS, tasksOf } from '../helpers/rig.ts';
import { Host, held, redis } from './pump-scene.ts';

/** Takes it that turns fail. */
export class Patient extends Host {
  failures = 0;
  override failed(): void {
    this.failures += 1;
  }
}

export const FENCE_MS = 60_000;
export const single = (): Promise<unknown> =>
  createTasks(redis, {
    ...{ partition: 0, core: newCore(0, Date.now()), account_id: ACCOUNT, operation: newOperation() },
    tasks: tasksOf(1),
  });
export const ended = (pump: Pump, { flight, index }: Claimed): void =>
  pump.settle({ flight, index, verdict: 'c', delay_ms: 0, result: '[1,0,200,5]' });
export const claims = (from: number): number => held.called.slice(from).filter((scripts) => scripts.includes(partitionClaim.sha)).length;
/** Null where none stands. */
export const offer = async (): Promise<string | null> => (await redis.hget(keys.partition(0), 'free')) || null;
export const isFree = async (): Promise<boolean> => (await offer()) !== null;

/** A pump of this partition, and what it starts. */
export function scene(t: TestContext, holder = 'free', { host = new Host(), client = held as Redis, fence_ms = FENCE_MS } = {}) {
  const pump = new Pump(0, client, { ...SETTINGS, holder, sweep_ms: 60_000, fence_ms }, host);
  t.after(() => pump.close());
  return { pump, host };
}

/** What comes on a channel of the partition; `hear` is given it, or it is kept. */
export async function listen(t: TestContext, channel: string, hear?: (message: string) => void): Promise<string[]> {
  const messages: string[] = [];
  const listener = redis.duplicate();
  listener.on('smessageBuffer', (_name: Buffer, message: Buffer) => {
    messages.push(message.toString('latin1'));
    hear?.(message.toString('latin1'));
  });
  await listener.ssubscribe(channel);
  t.after(() => listener.disconnect());
  return messages;
}

/** An express that hears what is handed over, and has made its first offer. */
export async function expressOf(t: TestContext, options: Parameters<typeof scene>[2] = {}) {
  const made = scene(t, 'free', options);
  await listen(t, keys.handed(0), (message) => made.pump.handed(message));
  made.pump.hear(true);
  made.pump.express();
  await until(isFree, 5_000, 'the offer');
  return made;
}

/** One that is deaf: what was handed over is kept. */
export async function deaf(t: TestContext, options: Parameters<typeof scene>[2] = {}) {
  const made = scene(t, 'free', options);
  const messages = await listen(t, keys.handed(0));
  made.pump.hear(true);
  made.pump.express();
  await until(isFree, 5_000, 'the offer');
  return { ...made, messages };
}

/** The owner of the partition, who hears its bell. */
export async function ownerOf(t: TestContext, holder = 'owner') {
  const made = scene(t, holder, { client: redis });
  await listen(t, keys.bell(0), (message) => made.pump.bell(message));
  made.pump.own();
  await until(() => made.host.ticks > 0 && made.pump.empty, 5_000, 'the first look');
  return made;
}

export const started = (host: Host, tasks: number, what: string): Promise<void> => until(() => host.started.length === tasks, 5_000, what);
