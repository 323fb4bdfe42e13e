// Whether accepted work would outlive its master: asks for a replica's acknowledgement before a request is answered.
//
// Replication is ordered, so once a replica has a later write it has all earlier ones: after the work was written, a tiny
// write follows on a connection of ours, then WAIT, which covers what its own connection wrote. So admission goes over the
// shared connections as ever, and however many requests come, a master has one WAIT under way; all that arrive meanwhile
// share the next one. What waits is bounded by the requests that the front door lets in.
//
// WAIT is best effort: a failover can choose a replica that did not acknowledge. It makes loss rare, not impossible.

import { Cluster, type Redis } from 'ioredis';
import { monotonicMs } from '../base/clock.ts';
import { type LimitedLog, type Log, limitedLog } from '../base/log.ts';
import type { ConnectionSpec } from './address.ts';
import { createClient, createNode, untilReady } from './client.ts';
import { NotReplicated } from './errors.ts';
import { keys } from './keys.ts';
import type { RedisClient } from './script.ts';
import { slotOfKey } from './tags.ts';

/**
 * - `local`: the master has it.
 * - `replicated`: a replica has it too, unless none is attached: then it goes on without, and says so.
 * - `strict`: a replica has it too.
 */
export type DurabilityMode = 'local' | 'replicated' | 'strict';

export interface Durability {
  /** The mode is `local`: what was written is as safe as it asks. */
  readonly local: boolean;
  /**
   * Called right after a write to the partition was answered. True: it is as safe as the mode asks. False: the mode is
   * `replicated` and no replica is attached. Throws NotReplicated where a replica did not acknowledge it in time.
   */
  confirm(partition: number): Promise<boolean>;
  /** The same after a write to what lies in an account's home slot. */
  confirmHome(account_id: string): Promise<boolean>;
  close(): void;
}

export interface DurabilityDeps {
  /** The client that writes; it knows which master has which partition. */
  client: RedisClient;
  connection: ConnectionSpec;
  mode: DurabilityMode;
  log: Log;
}

const WAIT_MS = 250;
/** A Cluster without replicas stays one; each thread says it so often. */
const REMIND_MS = 60_000;
/** How long "no replica is attached" is believed. */
const ALONE_MS = 1_000;
const CONNECT_WAIT_MS = 1_000;
const ROLE = 'durability';
/** Nothing is sent twice or later: an answer must speak of the master that the work was written to. */
const LINK = { autoResendUnfulfilledCommands: false, maxRetriesPerRequest: 0 };
/** The link's name where there is one master for everything. */
const ONLY = '';

export function openDurability(deps: DurabilityDeps): Durability {
  if (deps.mode === 'local') return { local: true, confirm: async () => true, confirmHome: async () => true, close: () => {} };
  const { client, connection, mode } = deps;
  const log = limitedLog(deps.log);
  const lasting = limitedLog(deps.log, REMIND_MS);
  const cluster = client instanceof Cluster ? client : null;
  const links = new Map<string, Link>();

  const prune = (): void => {
    const masters = new Set(cluster?.nodes('master').map(({ options }) => `${options.host}:${options.port}`));
    for (const [node, link] of links) {
      if (masters.has(node)) continue;
      links.delete(node);
      link.close();
    }
  };
  cluster?.on('refresh', prune);

  const linkOf = (mark: string): Link => {
    const node = cluster === null ? ONLY : masterOf(cluster, mark);
    const known = links.get(node);
    if (known !== undefined) return known;
    const redis = cluster === null ? openOnly(connection, deps.log) : createNode(connection, node, ROLE, LINK);
    if (cluster !== null) redis.on('error', (error: Error) => log.warn({ err: error, node }, 'redis connection for WAIT failed'));
    const link = new Link(redis, log);
    links.set(node, link);
    return link;
  };

  const confirmed = async (mark: string): Promise<boolean> => {
    const link = linkOf(mark);
    const acknowledged = await link.confirm(mark, cluster === null ? peerOf(client as Redis) : null);
    if (acknowledged) return true;
    if (mode === 'strict') throw new NotReplicated('no replica is attached');
    lasting.warn({}, 'no replica is attached: accepted work is on one machine only');
    return false;
  };

  return {
    local: false,
    confirm: (partition) => confirmed(keys.partition(partition)),
    confirmHome: (account_id) => confirmed(keys.accountMark(account_id)),
    close() {
      cluster?.off('refresh', prune);
      for (const link of links.values()) link.close();
      links.clear();
    },
  };
}

/** `host:port` of the master that has this key, as the client that has just written there knows it. */
function masterOf(cluster: Cluster, mark: string): string {
  const node = cluster.slots[slotOfKey(mark)]?.[0];
  if (node === undefined) throw new NotReplicated(`nobody serves ${mark}`);
  return node;
}

function openOnly(connection: ConnectionSpec, log: Log): Redis {
  const redis = createClient(connection, { role: ROLE, log }, LINK);
  if (redis instanceof Cluster) throw new Error('a Cluster has a link for each master');
  return redis;
}

/** Which server a connection leads to: with Sentinel the master changes under it. */
function peerOf({ stream }: Redis): string {
  return stream === undefined ? '' : `${stream.remoteAddress}:${stream.remotePort}`;
}

interface Waiting {
  /** A hash in the slot of the work; its field `w` is only written. */
  mark: string;
  /** Where the work was written to; null where the link leads nowhere else. */
  peer: string | null;
  done(acknowledged: boolean): void;
  failed(error: Error): void;
}

/** One master: the connection for its WAITs, and who waits for the next one. */
class Link {
  readonly #redis: Redis;
  readonly #log: LimitedLog;
  #waiting: Waiting[] = [];
  #running = false;
  #closed = false;
  #alone = false;
  #alone_asked_ms = 0;

  constructor(redis: Redis, log: LimitedLog) {
    this.#redis = redis;
    this.#log = log;
    // Whoever answers after the next connect may not be the server that has the work.
    redis.on('close', () => this.#fail(new Error('the connection was lost')));
  }

  /** Whether a replica has all that was written to this master beside the mark; false where none is attached. */
  confirm(mark: string, peer: string | null): Promise<boolean> {
    return new Promise((done, failed) => {
      this.#waiting.push({ mark, peer, done, failed });
      if (!this.#running) void this.#run();
    });
  }

  close(): void {
    this.#closed = true;
    this.#fail(new Error('the node is no master any more'));
    this.#redis.disconnect();
  }

  #fail(cause: unknown, group: readonly Waiting[] = this.#waiting.splice(0)): void {
    for (const { failed } of group) failed(new NotReplicated('no replica has acknowledged the write', { cause }));
  }

  async #run(): Promise<void> {
    this.#running = true;
    while (this.#waiting.length > 0) {
      try {
        // Before the group is taken, so that a loss of the connection ends it.
        if (this.#closed) throw new Error('closed');
        await untilReady(this.#redis, CONNECT_WAIT_MS);
      } catch (error) {
        this.#fail(error);
        continue;
      }
      const group = this.#waiting.splice(0);
      try {
        await this.#confirmGroup(group);
      } catch (error) {
        this.#log.warn({ err: error, requests: group.length }, 'a replica did not acknowledge in time');
        this.#fail(error, group);
      }
    }
    this.#running = false;
  }

  /** Settles each of the group, or throws for all. */
  async #confirmGroup(group: readonly Waiting[]): Promise<void> {
    if (await this.#isAlone()) {
      for (const { done } of group) done(false);
      return;
    }
    const marks = [...new Set(group.map(({ mark }) => mark))];
    const pipeline = this.#redis.pipeline();
    // Each slot has its own write: one that is served elsewhere by now says so.
    for (const mark of marks) pipeline.hset(mark, 'w', 1);
    pipeline.wait(1, WAIT_MS);
    const replies = (await pipeline.exec()) ?? [];
    const peer = peerOf(this.#redis);
    const [wait_error, acknowledged] = replies.at(-1) ?? [new Error('no reply'), 0];
    if (wait_error !== null) throw wait_error;
    const alone = acknowledged === 0 && (await this.#looksAlone());
    if (acknowledged === 0 && !alone) throw new Error(`no replica acknowledged it within ${WAIT_MS} ms`);
    const errors = new Map(marks.map((mark, i) => [mark, replies[i]?.[0] ?? null] as const));
    for (const waiting of group) {
      const error = errors.get(waiting.mark) ?? null;
      if (error !== null) this.#fail(error, [waiting]);
      else if (waiting.peer !== null && waiting.peer !== peer) this.#fail(new Error('the master has changed'), [waiting]);
      else waiting.done(!alone);
    }
  }

  /** While nobody was attached a moment ago, it is asked for first: a WAIT would take its whole time. */
  async #isAlone(): Promise<boolean> {
    if (!this.#alone || monotonicMs() - this.#alone_asked_ms < ALONE_MS) return this.#alone;
    return this.#looksAlone();
  }

  /** A replica that still loads its first copy protects nothing, so it does not count. */
  async #looksAlone(): Promise<boolean> {
    const info = await this.#redis.info('replication');
    this.#alone = !/^slave\d+:.*\bstate=online\b/m.test(info);
    this.#alone_asked_ms = monotonicMs();
    return this.#alone;
  }
}
