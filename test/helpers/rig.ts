// One Redis, one clock that the test turns, and the store's own functions against it; after every call the partition is
// checked. So a test reads: state before, call, state after.
import assert from 'node:assert/strict';
import { type Command, Redis } from 'ioredis';
import { newCore, partitionOf } from '../../src/base/id.ts';
import * as batches from '../../src/store/batches.ts';
import { encodeAdded, encodeTasks } from '../../src/store/encoded.ts';
import type { IdemArgs } from '../../src/store/idempotency.ts';
import { keys } from '../../src/store/keys.ts';
import * as oneTask from '../../src/store/one-task.ts';
import {
  type Claimed,
  type ClaimReply,
  type ClaimRequest,
  preparePartitions,
  type Settlement,
  type SettleReply,
  type TickReply,
  type TurnSettings,
  turn,
  type Verdict,
} from '../../src/store/partition.ts';
import type { NewTask, TaskLimit } from '../../src/store/records.ts';
import * as rounds from '../../src/store/rounds.ts';
import { preload, textOf } from '../../src/store/script.ts';
import { scripts } from '../../src/store/scripts.gen.ts';
import { type CheckedBatch, checkPartition } from './check-partition.ts';
import { type Dump, dumpPartition } from './dump-partition.ts';
import { startRedis } from './redis.ts';

/** Scripts, by their text or its hash, that take the time in µs and not in ms. */
const IN_US = new Set(Object.values(scripts).flatMap((one) => (one.args.at(-1)?.[1] === 'now_us' ? [one.sha, textOf(one)] : [])));

/** A client whose scripts see the time that the test says: they take it as their last argument, empty in production. */
export class ClockedRedis extends Redis {
  now_ms = 0;

  override sendCommand(command: Command, stream?: Parameters<Redis['sendCommand']>[1]): unknown {
    const last = command.args.length - 1;
    if (/^eval(sha)?$/.test(command.name) && command.args[last] === '') {
      command.args[last] = String(IN_US.has(String(command.args[0])) ? this.now_ms * 1000 : this.now_ms);
    }
    return super.sendCommand(command, stream);
  }
}

export const T0 = 1_800_000_000_000;
/** So long before its time work may be claimed (lua/lib/delayed.lua); who claims it waits for that. */
export const DUE_AHEAD_MS = 10;
export const ACCOUNT = 'acme';
export const SETTINGS: Omit<TurnSettings, 'holder'> = {
  silence_ms: 8_000,
  gap_ms: 3_000,
  grace_ms: 5_000,
  keep_ms: 100_000,
  tray_keep_ms: 50_000,
  recoveries_max: 3,
};

export interface TaskSpec {
  origin?: string;
  due_ms?: number;
  timeout_s?: number;
  payload?: string;
  head?: string;
  limit?: TaskLimit | null;
}

/** Tasks that say which they are: `n` of them, all alike, or one for each spec. */
export function tasksOf(specs: number | readonly TaskSpec[], label = 'task'): NewTask[] {
  const list = typeof specs === 'number' ? Array.from({ length: specs }, () => ({}) as TaskSpec) : specs;
  const head = Buffer.from('{"target":"https://a.example/"}');
  return list.map((spec, i) => ({
    head: spec.head === undefined ? head : Buffer.from(spec.head),
    payload: Buffer.from(spec.payload ?? JSON.stringify(`${label} ${i}`)),
    origin: spec.origin ?? 'o1',
    timeout_s: spec.timeout_s ?? 30,
    due_ms: spec.due_ms ?? 0,
    limit: spec.limit ?? null,
  }));
}

export interface CreateOptions {
  account?: string;
  partition?: number;
  core?: string;
  tasks?: number | readonly TaskSpec[];
  expiration_ms?: number;
  expires_from_ms?: number;
  movable?: boolean;
  hold?: boolean;
  /** Hashes, as labelHash gives them. */
  labels?: readonly string[];
  task_keys?: readonly string[];
  /** Field `N`, see lua/lib/notify.lua. */
  notify?: string;
}

export type ClaimOptions = Partial<ClaimRequest> & { partition?: number };

export interface AddOptions {
  account?: string;
  operation?: string;
  expires_from_ms?: number;
  expiration_ms?: number;
  task_keys?: readonly string[];
}

export class Rig {
  readonly redis: ClockedRedis;
  /** Partition of calls that name no batch. */
  partition = 0;
  /** Switched off where a test makes many calls and checks at its end. */
  checks = true;
  #call_no = 0;

  constructor(redis: ClockedRedis) {
    this.redis = redis;
    redis.now_ms = T0;
  }

  get now_ms(): number {
    return this.redis.now_ms;
  }

  pass(ms: number): void {
    this.redis.now_ms += ms;
  }

  /** Lets time pass as it does while somebody works: a tick of `holder` every two seconds. */
  async passWith(holder: string, ms: number): Promise<void> {
    for (let left = ms; left > 0; left -= 2_000) {
      this.pass(Math.min(2_000, left));
      await this.tick(holder);
    }
  }

  /** An empty Redis at T0. */
  async reset(partitions = 4): Promise<void> {
    await this.redis.flushall();
    await preparePartitions(this.redis, partitions);
    this.redis.now_ms = T0;
    this.#call_no = 0;
  }

  async check(partition = this.partition): Promise<Map<string, CheckedBatch>> {
    return this.checks ? checkPartition(this.redis, partition) : new Map();
  }

  dump(partition = this.partition): Promise<Dump> {
    return dumpPartition(this.redis, partition);
  }

  async batch(core: string): Promise<CheckedBatch> {
    const found = (await checkPartition(this.redis, partitionOf(core))).get(core);
    assert.ok(found, `batch ${core}`);
    return found;
  }

  newCore(partition = this.partition): string {
    return newCore(partition, this.now_ms);
  }

  async create(options: CreateOptions = {}): Promise<string> {
    const { partition = this.partition, core = this.newCore(partition), tasks = 1 } = options;
    await batches.createBatch(this.redis, {
      partition,
      core,
      account_id: options.account ?? ACCOUNT,
      doc: Buffer.from('{}'),
      tasks: encodeTasks(tasksOf(tasks)),
      expiration_ms: options.expiration_ms ?? 86_400_000,
      expires_from_ms: options.expires_from_ms ?? 0,
      movable: options.movable ?? false,
      hold: options.hold ?? false,
      labels: options.labels ?? [],
      notify: options.notify ?? '',
      task_keys: options.task_keys ?? [],
    });
    await this.check(partition);
    return core;
  }

  async add(core: string, tasks: number | readonly TaskSpec[], options: AddOptions = {}): Promise<batches.AddOutcome> {
    const outcome = await batches.addTasks(this.redis, {
      account_id: options.account ?? ACCOUNT,
      core,
      operation: options.operation ?? batches.newOperation(),
      tasks: encodeAdded(tasksOf(tasks, 'added')),
      expires_from_ms: options.expires_from_ms ?? 0,
      expiration_ms: options.expiration_ms ?? 86_400_000,
      task_keys: options.task_keys ?? [],
    });
    await this.check(partitionOf(core));
    return outcome;
  }

  async cancel(core: string, account = ACCOUNT): Promise<batches.CancelOutcome> {
    const outcome = await batches.cancelBatch(this.redis, account, core, SETTINGS);
    await this.check(partitionOf(core));
    return outcome;
  }

  async release(core: string, account = ACCOUNT): Promise<batches.BatchRow | null> {
    const released = await batches.releaseBatch(this.redis, account, core, SETTINGS);
    await this.check(partitionOf(core));
    return released;
  }

  /** Single tasks into the account's tray. */
  async single(
    tasks: number | readonly TaskSpec[] = 1,
    options: { account?: string; operation?: string; partition?: number; core?: string; place?: number; idem?: IdemArgs } = {},
  ): Promise<{ core: string; first: number; created_ms: number }> {
    const { partition = this.partition } = options;
    const made = await batches.createTasks(this.redis, {
      partition,
      core: options.core ?? this.newCore(partition),
      account_id: options.account ?? ACCOUNT,
      operation: options.operation ?? batches.newOperation(),
      tasks: tasksOf(tasks, 'single'),
      place: options.place ?? 0,
      ...(options.idem === undefined ? {} : { idem: options.idem }),
    });
    if (made === null) throw new Error('the idempotency key is taken');
    await this.check(partition);
    return made;
  }

  /** How many scripts Redis has run by calls from outside. */
  async scriptCalls(): Promise<number> {
    const text = await this.redis.info('commandstats');
    return [...text.matchAll(/^cmdstat_eval(?:sha)?:calls=(\d+)/gm)].reduce((sum, [, calls]) => sum + Number(calls), 0);
  }

  async cancelTask(core: string, index: number, account = ACCOUNT, limiter = '', due_ms = 0): Promise<string> {
    const outcome = await oneTask.cancelTask(this.redis, account, { core, index, limiter, due_ms }, SETTINGS);
    await this.check(partitionOf(core));
    return outcome;
  }

  async retryTask(core: string, index: number, account = ACCOUNT, origin = 'o1', more: Partial<oneTask.TaskToRetry> = {}): Promise<string> {
    const outcome = await oneTask.retryTask(this.redis, account, core, index, {
      origin,
      timeout_s: 30,
      due_ms: 0,
      expiration_ms: 86_400_000,
      operation: batches.newOperation(),
      ...more,
    });
    await this.check(partitionOf(core));
    return outcome;
  }

  async retryBatch(
    core: string,
    { account_id = ACCOUNT, operation = batches.newOperation(), expiration_ms = 86_400_000 }: Partial<rounds.RetryBatch> = {},
  ): Promise<rounds.RetryOutcome> {
    const outcome = await rounds.retryBatch(this.redis, { account_id, core, operation, expiration_ms });
    await this.check(partitionOf(core));
    return outcome;
  }

  async delete(core: string, account = ACCOUNT): Promise<batches.DeleteOutcome> {
    const outcome = await batches.deleteBatch(this.redis, account, core);
    await this.check(partitionOf(core));
    return outcome;
  }

  /** The next call of this rig, or a repeated one where `call_no` is given. */
  async claim(holder: string, budget: number, options: ClaimOptions = {}): Promise<Claimed[]> {
    return (await this.claimed(holder, budget, options)).tasks;
  }

  async claimed(holder: string, budget: number, options: ClaimOptions = {}): Promise<ClaimReply> {
    const { call_no = ++this.#call_no, partition = this.partition, room = 1_000_000, unpark = [], rooms = [], notes = budget } = options;
    const reply = await turn(
      this.redis,
      partition,
      { ...SETTINGS, holder },
      { settlements: [], tick: false, claim: { call_no, budget, room, unpark, rooms, notes, suspects: options.suspects ?? budget } },
    );
    if (reply.claimed === null || reply.claimed instanceof Error) throw reply.claimed ?? new Error('no answer');
    await this.check(partition);
    return reply.claimed;
  }

  /** One verdict for all these tasks. */
  async settle(
    holder: string,
    tasks: readonly Claimed[],
    verdict: Verdict,
    options: { delay_ms?: number; partition?: number; result?: string } = {},
  ): Promise<SettleReply> {
    const { delay_ms = 0, result = '[1,0,200,5]' } = options;
    return this.settleAll(
      holder,
      tasks.map(({ flight, index }) => ({ flight, index, verdict, delay_ms, result: verdict === 'b' ? '' : result })),
      options.partition,
    );
  }

  async settleAll(holder: string, settlements: readonly Settlement[], partition = this.partition): Promise<SettleReply> {
    const reply = await turn(this.redis, partition, { ...SETTINGS, holder }, { settlements, tick: false, claim: null });
    if (reply.settled instanceof Error) throw reply.settled;
    await this.check(partition);
    return reply.settled ?? { now_ms: this.now_ms, first_due_ms: 0, left: [], ready: false, messages: false };
  }

  async tick(holder: string, options: Partial<TurnSettings> & { partition?: number } = {}): Promise<TickReply> {
    const { partition = this.partition, ...settings } = options;
    const reply = await turn(this.redis, partition, { ...SETTINGS, ...settings, holder }, { settlements: [], tick: true, claim: null });
    if (reply.tick === null || reply.tick instanceof Error) throw reply.tick ?? new Error('no answer');
    await this.check(partition);
    return reply.tick;
  }

  /** Names in flight of a holder. */
  active(holder: string, partition = this.partition): Promise<string[]> {
    return this.redis.zrange(keys.active(partition, holder), 0, '-1');
  }
}

/** A rig on a Redis of its own. */
export async function startRig(): Promise<Rig> {
  const { path } = await startRedis();
  const redis = new ClockedRedis({ path });
  // A script whose text had to be sent runs after the others of its round trip, and the reply says that there may be more.
  await preload(redis, Object.values(scripts));
  const rig = new Rig(redis);
  await rig.reset();
  return rig;
}

/** `<core>,<index>` of each, for comparison. */
export function places(tasks: readonly Claimed[]): string[] {
  return tasks.map(({ flight, index }) => `${flight.core},${index}`);
}
