// One limiter's lane on a real Redis, with given time: what its source sends it, what it sends back.
import { ID_PREFIX, newCore } from '../../src/base/id.ts';
import type { LimiterType } from '../../src/schema/limiters/kinds.ts';
import { LIMITER_KINDS } from '../../src/schema/limiters/kinds.ts';
import { keys } from '../../src/store/keys.ts';
import type { LimiterConfig } from '../../src/store/limiter-machines.ts';
import { machineOf } from '../../src/store/limiter-machines.ts';
import type { RedisClient } from '../../src/store/script.ts';
import {
  limiterCreate,
  limiterDelete,
  limiterPatch,
  limiterPause,
  limiterReset,
  limiterResume,
  outboxReceive,
  partitionGrant,
} from '../../src/store/scripts.gen.ts';

export const ACCOUNT = 'acct000001';
const TIMEOUT_S = 30;

/** Tasks from..to of a batch, as they wait. */
export interface Range {
  batch: string;
  from: number;
  to: number;
  cost?: number;
  first_ms: number;
  /** 0: none. */
  valid_ms?: number;
  attempts?: number;
}

export interface GrantSent {
  kind: 'grant';
  place: number;
  granted_ms: number;
  /** How long after that it may start. */
  life_ms: number;
  last: boolean;
  letter: string;
  /** It need not wait for others that start late. */
  spare: boolean;
  range: Required<Range>;
}

export interface FailSent {
  kind: 'fail';
  code: string;
  range: Required<Range>;
}

export interface Look {
  now_ms: number;
  /** µs; null where nothing is to come. */
  next_us: number | null;
  more: boolean;
  granted: number;
  expired: number;
  reclaimed: number;
  waiting: number;
  waits: number[];
  /** Whether the lane was among those that were looked at. */
  looked: boolean;
  sent: (GrantSent | FailSent)[];
}

export interface NewLane {
  type: LimiterType;
  config: LimiterConfig;
  queue_s?: number;
  valid_s?: number;
  cooldown?: boolean;
  now_us: number;
}

export class Lane {
  readonly core: string;
  readonly partition: number;
  readonly source: number;
  readonly #client: RedisClient;
  readonly #letter: string;
  readonly type: LimiterType;
  #seq = 0;

  private constructor(client: RedisClient, partition: number, type: LimiterType, now_us: number) {
    this.#client = client;
    this.partition = partition;
    // All batches lie in one other partition, so what the lane sends keeps one order.
    this.source = partition + 1;
    this.core = newCore(partition, Math.floor(now_us / 1000));
    this.type = type;
    this.#letter = LIMITER_KINDS[type].letter;
  }

  static async create(client: RedisClient, partition: number, lane: NewLane): Promise<Lane> {
    const made = new Lane(client, partition, lane.type, lane.now_us);
    const { type, config, queue_s = 300, valid_s = 3600, cooldown = false, now_us } = lane;
    const fields = ['name', 'test', 'type', type, 'kind', made.#letter, 'description', '', ...configFields(type, config)];
    fields.push('queue_s', queue_s, 'valid_s', valid_s, 'cooldown', cooldown ? 1 : 0);
    await limiterCreate.call(client, made.meta, { core: made.core, account: ACCOUNT, now_us, fields });
    return made;
  }

  /** A lane that has no record. */
  static missing(client: RedisClient, partition: number, now_us: number): Lane {
    return new Lane(client, partition, 'window', now_us);
  }

  get meta(): { meta: string } {
    return { meta: keys.partition(this.partition) };
  }

  get id(): string {
    return ID_PREFIX.limiter + this.core;
  }

  key(part = ''): string {
    return `${keys.partition(this.partition).slice(0, -1)}lane:${this.core}${part}`;
  }

  newBatch(now_us: number): string {
    return newCore(this.source, Math.floor(now_us / 1000));
  }

  entry({ batch, from, to, cost = 1, first_ms, valid_ms = 0, attempts = 0 }: Range): string {
    return `f:${ACCOUNT}:origin0001|${batch},${from},${to},${attempts},0,${TIMEOUT_S},${first_ms};${this.core},${this.#letter},${cost},${first_ms},${valid_ms}`;
  }

  /** Hands over messages, `<kind> <body>`, as the outbox does. */
  async receive(now_us: number, ...messages: string[]): Promise<void> {
    const now_ms = Math.floor(now_us / 1000);
    const numbered = messages.map((message) => `${++this.#seq} ${message}`);
    const args = {
      source: this.source,
      source_ms: now_ms,
      unsure_ms: 0,
      ahead_ms: 0,
      keep_ms: 1000,
      tray_keep_ms: 1000,
      now_us,
      messages: numbered,
    };
    const [, done] = await outboxReceive.call(this.#client, this.meta, args);
    if (done !== messages.length) throw new Error(`${done} of ${messages.length} messages were taken: ${messages[done]}`);
  }

  queue(now_us: number, ...ranges: Range[]): Promise<void> {
    return this.receive(now_us, ...ranges.map((range) => `queue ${this.core} ${this.entry(range)}`));
  }

  back(now_us: number, { place, granted_ms }: GrantSent, range: Range): Promise<void> {
    return this.receive(now_us, `back ${this.core} ${place} ${granted_ms} ${this.entry(range)}`);
  }

  unused(now_us: number, granted_ms: number, { batch, from, to, cost = 1 }: Range): Promise<void> {
    const tasks = to - from + 1;
    return this.receive(now_us, `unused ${this.core} ${granted_ms} ${tasks} ${tasks * cost} ${batch} ${from} ${to}`);
  }

  /** Looks at all lanes of the partition whose time has come, and takes what they have sent. */
  async look(now_us: number, tasks_max = 500, lanes_max = 16, ahead_us = 0): Promise<Look> {
    const args = { lanes_max, tasks_max, ahead_us, now_us };
    const [now_ms, next_ms, more, , lanes] = await partitionGrant.call(this.#client, this.meta, args);
    const mine = lanes.find(([core]) => core === this.core);
    const [, , granted = 0, expired = 0, reclaimed = 0, waiting = 0, waits = []] = mine ?? [];
    const next_us = next_ms === '' ? null : Math.round(Number(next_ms) * 1000);
    return {
      now_ms,
      next_us,
      more: more === 1,
      granted,
      expired,
      reclaimed,
      waiting,
      waits,
      looked: mine !== undefined,
      sent: await this.sent(),
    };
  }

  /** One call, whose messages stay in the outbox; returns how many tasks it let start. */
  async grantOnly(now_us: number, tasks_max: number): Promise<number> {
    const [, , , , lanes] = await partitionGrant.call(this.#client, this.meta, { lanes_max: 1, tasks_max, ahead_us: 0, now_us });
    return lanes.reduce((sum, lane) => sum + lane[2], 0);
  }

  /** Takes away all that its partition holds. */
  async remove(): Promise<void> {
    const root = keys.partition(this.partition).slice(0, -1);
    const parts = ['', ':q', ':e', ':first', ':until', ':n', ':dropped', ':use', ':log', ':run'].map((part) => this.key(part));
    await this.#client.unlink(...parts, `${root}lanes`, `${root}m`, `${root}hw`, `${root}outbox`, keys.outbox(this.partition, this.source));
  }

  /** Looks until nothing more is due. */
  async lookAll(now_us: number, ahead_us = 0): Promise<Look> {
    const all = await this.look(now_us, 500, 16, ahead_us);
    for (let last = all; last.more; ) {
      last = await this.look(now_us, 500, 16, ahead_us);
      all.sent.push(...last.sent);
      Object.assign(all, { next_us: last.next_us, more: last.more, waiting: last.looked ? last.waiting : all.waiting });
      all.granted += last.granted;
      all.expired += last.expired;
      all.reclaimed += last.reclaimed;
    }
    return all;
  }

  /** Takes what waits in the outbox for the batches' partition. */
  async sent(): Promise<(GrantSent | FailSent)[]> {
    const key = keys.outbox(this.partition, this.source);
    const messages = await this.#client.zrange(key, '0', '-1');
    if (messages.length > 0) await this.#client.del(key, keys.outbox(this.partition));
    return messages.map(readSent);
  }

  patch(now_us: number, config: LimiterConfig): Promise<unknown> {
    return limiterPatch.call(this.#client, this.meta, {
      core: this.core,
      account: ACCOUNT,
      now_us,
      fields: configFields(this.type, config),
    });
  }

  pause(now_us: number, until_ms: number | null): Promise<unknown> {
    const until = until_ms === null ? 'inf' : String(until_ms);
    return limiterPause.call(this.#client, this.meta, { core: this.core, account: ACCOUNT, now_us, until_ms: until });
  }

  resume(now_us: number): Promise<unknown> {
    return limiterResume.call(this.#client, this.meta, { core: this.core, account: ACCOUNT, now_us });
  }

  reset(now_us: number): Promise<unknown> {
    return limiterReset.call(this.#client, this.meta, { core: this.core, account: ACCOUNT, now_us });
  }

  delete(now_us: number): Promise<unknown> {
    return limiterDelete.call(this.#client, this.meta, { core: this.core, account: ACCOUNT, now_us });
  }
}

function configFields(type: LimiterType, config: LimiterConfig): (string | number)[] {
  return ['config', JSON.stringify(config), ...Object.entries(machineOf(type, config)).flat()];
}

const ENTRY = /^([^|]+)\|(\w+),(\d+),(\d+),(\d+),(\d+),(\d+),(\d+);(\w+),(\w!?),(\d+),(\d+),(\d+)$/;

function readSent(message: string): GrantSent | FailSent {
  const [, kind, ...words] = message.split(' ');
  const [, , batch = '', from, to, attempts, , , , , letter = '', cost, first_ms, valid_ms] = ENTRY.exec(words.at(-1) ?? '') ?? [];
  if (batch === '') throw new Error(`not an entry: ${message}`);
  const range = {
    batch,
    from: Number(from),
    to: Number(to),
    attempts: Number(attempts),
    cost: Number(cost),
    first_ms: Number(first_ms),
    valid_ms: Number(valid_ms),
  };
  if (kind === 'fail') return { kind, code: words[1] ?? '', range };
  return {
    kind: 'grant',
    place: Number(words[1]),
    granted_ms: Number(words[2]),
    life_ms: Number(words[3]),
    last: Number(words[4]) === range.to,
    letter,
    spare: cost?.startsWith('0') === true,
    range,
  };
}
