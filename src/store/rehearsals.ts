// Rehearsals of what is about to be called: a script runs over what is there and changes nothing (lua/lib/rehearse.lua), so that who is
// called in earnest a moment later has its code in the processor's caches (docs/decisions/0071-a-rehearsal.md).
//
// They go out on a connection that never answers, so one costs its sender a write. A lost one is lost. Where there is a Cluster there are none.
import { Cluster, type Redis, ReplyError } from 'ioredis';
import type { ConnectionSpec } from './address.ts';
import { type ClientOptions, createClient } from './client.ts';
import { NO_RECORD } from './idempotency.ts';
import { keys } from './keys.ts';
import { encodePages } from './records.ts';
import { taskCreate } from './scripts.gen.ts';

export interface Rehearsals {
  /** That a single task of this account is created in this partition. */
  createTask(partition: number, account_id: string): void;
  close(): void;
}

const NONE: Rehearsals = { createTask: () => {}, close: () => {} };
/** Of nobody's batch. */
const CORE = '0'.repeat(16);
/** About what tasks are like. */
const PAGES = encodePages(
  [
    {
      head: Buffer.from('{"target":{"url":"http://127.0.0.1/hooks/of/a/rehearsal","method":"POST"}}'),
      payload: Buffer.from(JSON.stringify({ rehearsal: 'x'.repeat(160) })),
      origin: 'rehearsal0',
      timeout_s: 30,
      due_ms: 0,
      limit: null,
    },
  ],
  0,
);
const PARTS = [PAGES.length, ...PAGES, 1, 0, 0, 'rehearsal0', 30, 0, '', 0];
/** Calls that are kept ready to be sent. */
const CALLS_MAX = 1_000;

/** With a connection of its own. None where Redis does not let us have one that does not answer. */
export function openRehearsals(spec: ConnectionSpec, owner: ClientOptions): Rehearsals {
  if (spec.kind === 'cluster') return NONE;
  const client = createClient(spec, { ...owner, role: `${owner.role}-rehearsals` }, { enableOfflineQueue: false });
  if (client instanceof Cluster) throw new Error('one server has no Cluster client');
  return new OneServer(client);
}

class OneServer implements Rehearsals {
  readonly #redis: Redis;
  readonly #calls = new Map<string, Buffer>();
  /** The connection is there, and silent. */
  #silent = false;

  constructor(redis: Redis) {
    this.#redis = redis;
    redis.on('ready', () => void this.#silence());
    redis.on('close', () => {
      this.#silent = false;
    });
  }

  createTask(partition: number, account_id: string): void {
    const { stream } = this.#redis;
    // Where it does not take what came before it is too slow to be of use.
    if (!this.#silent || !stream.writable || stream.writableLength > 0) return;
    stream.write(this.#callOf(partition, account_id));
  }

  close(): void {
    this.#silent = false;
    this.#redis.disconnect();
  }

  #callOf(partition: number, account_id: string): Buffer {
    const name = `${partition} ${account_id}`;
    const known = this.#calls.get(name);
    if (known !== undefined) return known;
    const place = { meta: keys.partition(partition) };
    const call = taskCreate.bytes(place, { core: CORE, account: account_id, op: '', total: 1, place: 0, ...NO_RECORD, parts: PARTS });
    if (this.#calls.size >= CALLS_MAX) this.#calls.clear();
    this.#calls.set(name, call);
    return call;
  }

  /** Each new connection answers until it is told not to. Whether we may tell it so its answer to the opposite says. */
  async #silence(): Promise<void> {
    try {
      await this.#redis.client('REPLY', 'ON');
      this.#redis.stream.write('*3\r\n$6\r\nCLIENT\r\n$5\r\nREPLY\r\n$3\r\nOFF\r\n');
      this.#silent = true;
    } catch (error) {
      // Not for this user, or the connection is gone again; one that does not answer is replaced.
      if (!(error instanceof ReplyError) && this.#redis.status === 'ready') this.#redis.disconnect(true);
    }
  }
}
