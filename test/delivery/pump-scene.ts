import { after, beforeEach } from 'node:test';
import { type ChainableCommander, type Command, Redis } from 'ioredis';
import { newCore } from '../../src/base/id.ts';
import { Origins } from '../../src/delivery/origins.ts';
import type { Pump } from '../../src/delivery/pump.ts';
import type { PumpHost } from '../../src/delivery/pump-host.ts';
import { createBatch } from '../../src/store/batches.ts';
import { startsIn } from '../../src/store/claimed.ts';
import { encodeTasks } from '../../src/store/encoded.ts';
import { type Claimed, preparePartitions } from '../../src/store/partition.ts';
import { startRedis } from '../helpers/redis.ts';
import { ACCOUNT, type TaskSpec, tasksOf } from '../helpers/rig.ts';

export const ORIGIN = 'o1';
export const { redis, path } = await startRedis();

/** Does something after Redis has answered a pipeline and before anybody hears of it; knows which scripts each pipeline called. */
class Held extends Redis {
  readonly called: string[][] = [];
  under_way = 0;
  meanwhile: (() => Promise<void>) | null = null;

  override sendCommand(command: Command, stream?: Parameters<Redis['sendCommand']>[1]): unknown {
    if (command.name === 'evalsha') this.called.at(-1)?.push(String(command.args[0]));
    return super.sendCommand(command, stream);
  }

  override pipeline(): ChainableCommander {
    const pipeline = super.pipeline();
    const exec = pipeline.exec.bind(pipeline);
    const held = async () => {
      this.called.push([]);
      this.under_way += 1;
      const replies = await exec();
      const { meanwhile } = this;
      this.meanwhile = null;
      await meanwhile?.();
      this.under_way -= 1;
      return replies;
    };
    return Object.assign(pipeline, { exec: held });
  }
}

export const held = new Held({ path });
after(() => held.disconnect());
beforeEach(async () => {
  await redis.flushall();
  await preparePartitions(redis, 1);
});

export class Host implements PumpHost {
  readonly origins = new Origins(100, { free: () => 100, behind: () => false });
  readonly started: Claimed[] = [];
  /** How long what was handed over has to wait for its time. */
  readonly waits_ms: number[] = [];
  places = 100;
  ticks = 0;
  reserve(_pump: Pump, wanted: number): number {
    return Math.min(wanted, this.places);
  }
  release(): void {}
  readonly has_notes = true;
  reserveNotes(wanted: number): number {
    return wanted;
  }
  releaseNotes(): void {}
  mayBringSuspect(): boolean {
    return true;
  }
  claimEnded(): void {}
  has_places = true;
  hasPlaces(): boolean {
    return this.has_places;
  }
  get offer_gap_ms(): number {
    return 10;
  }
  take(pump: Pump, task: Claimed, now_ms: number): void {
    this.waits_ms.push(startsIn(task, now_ms));
    this.run(pump, [task]);
  }
  overflown = 0;
  /** What the last call for help told of. */
  told: readonly string[] = [];
  ready = false;
  overflows(_pump: Pump, parked: readonly string[], ready: boolean): void {
    this.overflown += 1;
    this.told = parked;
    this.ready = ready;
  }
  helpers = 0;
  helped(pump: Pump): void {
    this.helpers += 1;
    pump.disown();
  }
  stillHungry(pump: Pump): void {
    if (this.places > 0) pump.wake();
  }
  fenced = 0;
  run(pump: Pump, tasks: readonly Claimed[]): void {
    if (!pump.fence.holds(pump.fence.since(0))) this.fenced += 1;
    this.started.push(...tasks);
  }
  ticked(): void {
    this.ticks += 1;
  }
  granted(): void {}
  relay(): void {}
  carry(): void {}
  sweep(): void {}
  failed(_partition: number, error: Error): void {
    throw error;
  }
}

export async function create(tasks: number, due_ms = 0): Promise<void> {
  await createSpecs(Array.from({ length: tasks }, () => ({ due_ms })));
}

export async function createSpecs(specs: readonly TaskSpec[], more: { doc?: Buffer; notify?: string } = {}): Promise<void> {
  await createBatch(redis, {
    partition: 0,
    core: newCore(0, Date.now()),
    account_id: ACCOUNT,
    doc: Buffer.from('{}'),
    tasks: encodeTasks(tasksOf(specs)),
    expiration_ms: 3_600_000,
    expires_from_ms: 0,
    movable: false,
    hold: false,
    task_keys: [],
    ...more,
  });
}
